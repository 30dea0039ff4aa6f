/** The fields of an extraction in the order in which this tab first showed them. It stays the same, also after a reload. */

const MAX_EXTRACTIONS = 50;
const seen = new Map<string, Set<string>>();
const keyOf = (extractionId: string) => `fieldmark.order.${extractionId}`;

export function loadFieldOrder(extractionId: string): Set<string> {
  const paths = seen.get(extractionId) ?? stored(extractionId);
  seen.delete(extractionId);
  seen.set(extractionId, paths);
  if (seen.size > MAX_EXTRACTIONS) {
    const oldest = seen.keys().next().value!;
    seen.delete(oldest);
    sessionStorage.removeItem(keyOf(oldest));
  }
  return paths;
}

export function saveFieldOrder(extractionId: string): void {
  try {
    sessionStorage.setItem(keyOf(extractionId), JSON.stringify([...(seen.get(extractionId) ?? [])]));
  } catch {
    // Storage is blocked: the order lasts until the page is reloaded.
  }
}

function stored(extractionId: string): Set<string> {
  try {
    return new Set(JSON.parse(sessionStorage.getItem(keyOf(extractionId)) ?? '[]') as string[]);
  } catch {
    return new Set();
  }
}
