/** Paths of fields, written as the service writes them (domain/paths.py): `vendor.name`, `items[2].price`, `["a.b"].c`. */

export type Step = string | number;

const PLAIN = /^[^\].["\\\x00-\x20\x7f]+(?: [^\].["\\\x00-\x20\x7f]+)*$/;

export function pathName(steps: readonly Step[]): string {
  return steps.reduce<string>((name, step) => childName(name, step), '');
}

export function childName(parent: string, step: Step): string {
  if (typeof step === 'number') return `${parent}[${step}]`;
  if (!PLAIN.test(step)) return `${parent}[${JSON.stringify(step)}]`;
  return parent === '' ? step : `${parent}.${step}`;
}

/** Parse a path; null if it is not a path. */
export function pathSteps(name: string): Step[] | null {
  const steps: Step[] = [];
  let at = 0;
  while (at < name.length) {
    if (name[at] === '[') {
      const quoted = name[at + 1] === '"';
      const end = quoted ? endOfString(name, at + 1) : name.indexOf(']', at);
      if (end < 0 || name[end] !== ']') return null;
      try {
        steps.push(JSON.parse(name.slice(at + 1, end)) as Step);
      } catch {
        return null;
      }
      at = end + 1;
    } else {
      if (name[at] === '.') at += 1;
      const rest = /^[^.[]+/.exec(name.slice(at));
      if (rest === null) return null;
      steps.push(rest[0]);
      at += rest[0].length;
    }
  }
  return steps;
}

/** Return the value at these steps; undefined if there is none. */
export function valueAt(value: unknown, steps: readonly Step[]): unknown {
  return steps.reduce<unknown>(
    (at, step) =>
      typeof at === 'object' && at !== null && Object.hasOwn(at, step)
        ? (at as Record<Step, unknown>)[step]
        : undefined,
    value,
  );
}

/** Return the index after the JSON string that starts at `from`; -1 if it does not end. */
function endOfString(text: string, from: number): number {
  for (let at = from + 1; at < text.length; at += 1) {
    if (text[at] === '\\') at += 1;
    else if (text[at] === '"') return at + 1;
  }
  return -1;
}
