/** The positions of an extraction's fields when this tab first showed them. Their order stays the same, also after a reload. */

const MAX_EXTRACTIONS = 50;
const seen = new Map<string, Map<string, number>>();
const keyOf = (extractionId: string) => `fieldmark.order.${extractionId}`;

export function loadFieldOrder(extractionId: string): Map<string, number> {
  const places = seen.get(extractionId) ?? stored(extractionId);
  seen.delete(extractionId);
  seen.set(extractionId, places);
  if (seen.size > MAX_EXTRACTIONS) {
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
    // Storage is blocked: the order lasts until the page is reloaded.
  }
}

function stored(extractionId: string): Map<string, number> {
  try {
    const saved = JSON.parse(sessionStorage.getItem(keyOf(extractionId)) ?? '[]') as [string, number | null][];
    return new Map(saved.map(([path, place]) => [path, place ?? Infinity]));
  } catch {
    return new Map();
  }
}
