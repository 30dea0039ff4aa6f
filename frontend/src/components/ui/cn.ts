/** Joins class names. Utilities are not merged: a part's own classes and those of its caller must not contradict each
 * other. Where a caller has to override a part, it marks its utility as important (`h-8!`). */

export function cn(...names: (string | false | null | undefined)[]): string {
  return names.filter(Boolean).join(' ');
}
