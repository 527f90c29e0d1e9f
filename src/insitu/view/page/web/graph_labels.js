// What is written on the edges of the graph, and what appears on hovering.

const MOST_EDGE_TEXT = 34; // characters
const MOST_TITLE_LINES = 8;

/** The types of tensors, as few words as possible. @param {Data} data @param {number[]} tensors */
function tensorsText(data, tensors) {
  /** @type {Map<string, number>} */
  const counts = new Map();
  for (const tensor of tensors) {
    const type = data.types[data.tensor.type[tensor]]?.[0] ?? "?";
    counts.set(type, (counts.get(type) ?? 0) + 1);
  }
  const texts = [...counts].map(([type, count]) => (count > 1 ? `${many(count)} × ${type}` : type));
  const text = texts.join(", ");
  if (texts.length > 1 && text.length > MOST_EDGE_TEXT) return `${many(tensors.length)} tensors`;
  return shortened(text, MOST_EDGE_TEXT);
}

/** What is written on edges: the types of their tensors or, on request, the gradients. @returns {Label} */
function edgesLabel(
  /** @type {Data} */ data, /** @type {GraphEdge[]} */ edges, /** @type {boolean} */ hasGradients,
  /** @type {Ruler} */ ruler,
) {
  const gradients = hasGradients ? gradientsOf(data, distinctTensors(data, edges.flatMap((edge) => edge.all))) : [];
  const facts = gradients.length ? gradientFacts(data, gradients) : tensorFacts(data, edges);
  return { ...facts, width: facts.text ? ruler.width(facts.text, GRAPH_FONTS.label) : 0 };
}

/**
 * What is written of gradients: their range or, without statistics, their types.
 * @param {Data} data @param {number[]} gradients
 */
function gradientFacts(data, gradients) {
  const range = rangeOf(data, gradients);
  const text = range ? rangeText(range) : tensorsText(data, gradients);
  const isBad = range !== undefined && range.nan + range.inf > 0;
  return { text: `∇ ${text}`, isGradient: true, isBad };
}

/** What is written of the tensors of edges. @param {Data} data @param {GraphEdge[]} edges */
function tensorFacts(data, edges) {
  return { text: typesText(data, edges), isGradient: false, isBad: edges.some((edge) => edge.isBad) };
}

/** The types of the tensors of edges. @param {Data} data @param {GraphEdge[]} edges */
function typesText(data, edges) {
  const tensors = distinctTensors(data, edges.flatMap((edge) => edge.tensors));
  if (!tensors.length) return "";
  const isNext = edges.every((edge) => edge.isNext);
  return tensorsText(data, tensors) + (isNext ? " → next" : "");
}

/** The gradients of tensors, as numbers of tensors. @param {Data} data @param {number[]} tensors */
const gradientsOf = ({ tensor }, tensors) => tensors.map((number) => tensor.grad[number]).filter(Boolean);

/**
 * The range of some tensors, if their statistics are known.
 * @param {Data} data @param {number[]} tensors @returns {Range|undefined}
 */
function rangeOf({ stats, tensor }, tensors) {
  const numbers = tensors.map((number) => tensor.stats[number]).filter(Boolean);
  if (!numbers.length) return undefined;
  const sum = (/** @type {Numbers} */ column) => numbers.reduce((total, number) => total + column[number], 0);
  const known = numbers.filter((number) => stats.min[number] <= stats.max[number]); // the ends of others are not known
  const min = known.reduce((least, number) => Math.min(least, stats.min[number]), Infinity);
  const max = known.reduce((most, number) => Math.max(most, stats.max[number]), -Infinity);
  return { min, max, nan: sum(stats.nan), inf: sum(stats.inf), count: sum(stats.count), isKnown: true, isWhole: false };
}

/** What goes along a wire, from where to where. @param {GraphModel} model @param {Wire} wire */
function wireTitle(model, wire) {
  const { app } = model.flow;
  const nameOf = (/** @type {number} */ id) => {
    const { kind, name, row } = model.nodes[id];
    return kind === "call" || kind === "rest" ? app.calls.named(row) : name;
  };
  const lines = wire.edges.slice(0, MOST_TITLE_LINES).map((number) => {
    const edge = model.edges[number];
    const types = tensorsText(app.data, edge.tensors) || "order of calls";
    const end = edge.isNext ? `the next of ${nameOf(edge.to)}` : nameOf(edge.to);
    return `${nameOf(edge.from)} → ${end}: ${types}`;
  });
  const left = wire.edges.length - lines.length;
  return [...lines, ...(left ? [`… ${many(left)} more`] : [])].join("\n");
}
