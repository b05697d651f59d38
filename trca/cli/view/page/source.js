// Where the data comes from: the server, or the file itself where the page was exported.

const embedded = document.getElementById("data");

function fromFile(data) {
  return {
    kinds: [data.kind],
    about: async () => ({ runs: data.runs.map((run) => run.about), stops: data.stops }),
    list: async (run) => data.runs[run].list,
    group: async (run, kind, iteration, number) => data.runs[run].groups[number],
  };
}

function fromServer() {
  const known = new Map();
  let tag = "";
  async function ask(path, headers = {}) {
    const reply = await fetch(path, { headers });
    if (reply.ok || reply.status === 304) return reply;
    const { detail } = await reply.json().catch(() => ({}));  // an error of the server is no JSON
    throw new Error(detail || reply.statusText);
  }
  const get = async (path) => (await ask(path)).json();
  return {
    kinds: ["train", "eval"],
    // Gives null where nothing is new since the last call.
    about: async () => {
      const reply = await ask("api/runs", tag ? { "If-None-Match": tag } : {});
      tag = reply.headers.get("ETag");
      return reply.status === 304 ? null : reply.json();
    },
    list: (run, kind, iteration) => get(`api/runs/${run}/${kind}/${iteration}/groups`),
    group: (run, kind, iteration, number) => {
      const path = `api/runs/${run}/${kind}/${iteration}/groups/${number}`;
      if (known.size > 40) known.clear();
      if (!known.has(path)) {
        known.set(path, get(path).catch((error) => { known.delete(path); throw error; }));
      }
      return known.get(path);
    },
  };
}

const source = embedded ? fromFile(JSON.parse(embedded.textContent)) : fromServer();
