"""A server of the Model Context Protocol that gives a wrong result to one method."""

import json
import sys

RESULTS = {
    "initialize": {
        "protocolVersion": "2025-06-18",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "lying", "version": "1"},
    },
    "tools/list": {"tools": [{"name": "lie", "inputSchema": {"type": "object"}}]},
    "tools/call": {"content": [{"type": "text", "text": "It is true."}]},
    sys.argv[1]: {"content": 3, "tools": 3},
}
for line in sys.stdin:
    request = json.loads(line)
    answer = {"error": {"code": -32601, "message": "no such method"}}
    if request["method"] in RESULTS:
        answer = {"result": RESULTS[request["method"]]}
    if "id" in request:
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], **answer}), flush=True)
