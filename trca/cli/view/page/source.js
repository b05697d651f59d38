// Where the data comes from: the server, or the file itself where the page was exported.

const embedded = document.getElementById("data");

function fromFile(data) {
  return {
    kinds: [data.kind],
    about: async () => data.runs.map((run) => run.about),
    list: async (run, kind, iteration, seen) => seen(data.runs[run].list),
    group: async (run, kind, iteration, number) => data.runs[run].groups[number],
  };
}

function fromServer() {
  const known = new Map();
  async function get(path) {
    const reply = await fetch(path);
    if (reply.ok) return reply.json();
    const { detail } = await reply.json().catch(() => ({}));  // an error of the server is no JSON
    throw new Error(detail || reply.statusText);
  }
  return {
    kinds: ["train", "eval"],
    about: () => get("api/runs"),
    // Gives page after page, so that the first groups show at once.
    list: async (run, kind, iteration, seen) => {
      const at = `api/runs/${run}/${kind}/${iteration}/groups`;
      for (let start = 0, total = 1; start < total;) {
        const page = await get(`${at}?start=${start}`);
        seen(page);
        start += page.groups.length || page.total;
        total = page.total;
      }
    },
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
