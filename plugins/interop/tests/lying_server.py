"""A server of the Model Context Protocol that gives a wrong result to one method."""

import json
import sys

about = {"protocolVersion": "2025-06-18", "serverInfo": {"name": "lying", "version": "1"}}
RESULTS = {
    "initialize": {"capabilities": {"tools": {}}, **about},
    "tools/list": {"tools": [{"name": "lie", "inputSchema": {"type": "object"}}]},
    sys.argv[1]: {"content": 3, "tools": 3},
}
for request in map(json.loads, sys.stdin):
    known = request["method"] in RESULTS
    answer = (
        {"result": RESULTS[request["method"]]}
        if known
        else {"error": {"code": -32601, "message": "no"}}
    )
    print(json.dumps({"jsonrpc": "2.0", "id": request.get("id", 0), **answer}), flush=True)
