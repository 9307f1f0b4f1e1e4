// Releases one label in a browser, a phone app or node, by the manifest of labeldp_bench.
// The label stays on the device; only the report leaves it.  node client.js manifest.json yes
const uniform = () => {
  const [high, low] = globalThis.crypto.getRandomValues(new Uint32Array(2));
  return (high * 2 ** 21 + (low >>> 11)) / 2 ** 53; // 53 secret bits
};
const below = (count) => Math.floor(uniform() * count);

function release(manifest, label) {
  const own = manifest.classes.indexOf(label);
  if (own < 0) throw new Error("the label is none of the manifest's classes");
  const { law, classes } = manifest;
  if (law.kind === "label") {
    if (uniform() < law.own) return own;
    return (own + 1 + below(classes.length - 1)) % classes.length;
  }
  if (law.kind === "bits")
    return classes.map((_, each) => +(uniform() < (each === own ? law.own : law.other)));
  if (law.kind === "subset") {
    const others = classes.map((_, each) => each).filter((each) => each !== own);
    const chosen = uniform() < law.own ? [own] : [];
    while (chosen.length < law.size) // each of the others is as likely
      chosen.push(others.splice(below(others.length), 1)[0]);
    return classes.map((_, each) => +chosen.includes(each));
  }
  if (law.kind === "table") {
    let left = uniform(), output = 0;
    const row = law.probabilities[own];
    while (output < row.length - 1 && (left -= row[output]) >= 0) output++;
    return law.outputs[output];
  }
  throw new Error(`no client draws a law of kind ${law.kind}`);
}

if (typeof process !== "undefined" && process.argv.length > 3) {
  const [file, label, times] = process.argv.slice(2);
  const manifest = JSON.parse(require("fs").readFileSync(file));
  const reports = Array.from({ length: +(times ?? 1) }, () => release(manifest, label));
  console.log(JSON.stringify(reports));
}
