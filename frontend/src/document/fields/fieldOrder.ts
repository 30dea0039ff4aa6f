/** Where the fields of an extraction were on its pages when this tab first showed them: their order stays, also after a
 * reload. */

const MOST = 50;
const seen = new Map<string, Map<string, number>>();
const keyOf = (extractionId: string) => `fieldmark.order.${extractionId}`;

export function loadFieldOrder(extractionId: string): Map<string, number> {
  const places = seen.get(extractionId) ?? stored(extractionId);
  seen.delete(extractionId);
  seen.set(extractionId, places);
  if (seen.size > MOST) {
    const oldest = seen.keys().next().value!;
    seen.delete(oldest);
    sessionStorage.removeItem(keyOf(oldest));
  }
  return places;
}

export function saveFieldOrder(extractionId: string): void {
  try {
    sessionStorage.setItem(keyOf(extractionId), JSON.stringify([...(seen.get(extractionId) ?? [])]));
  } catch {
    // Nothing may be stored here: then the order holds until the page is loaded again.
  }
}

function stored(extractionId: string): Map<string, number> {
  try {
    const said = JSON.parse(sessionStorage.getItem(keyOf(extractionId)) ?? '[]') as [string, number | null][];
    return new Map(said.map(([path, place]) => [path, place ?? Infinity]));
  } catch {
    return new Map();
  }
}
