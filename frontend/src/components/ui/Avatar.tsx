/** A person: their initials in a colour of their own. */

import { cn } from './cn';

const COLOURS = [
  'bg-person-1-bg text-person-1',
  'bg-person-2-bg text-person-2',
  'bg-person-3-bg text-person-3',
  'bg-person-4-bg text-person-4',
] as const;

/** Return the initials of "Jo Doyle" or jo.doyle@example.org. */
export function initials(name: string): string {
  const words = name
    .split('@')[0]!
    .split(/[\s._-]+/)
    .filter(Boolean);
  const letters = words.length > 1 ? [words[0]!, words.at(-1)!] : words;
  return letters.map((word) => [...word][0]!.toUpperCase()).join('');
}

/** `id` decides the colour. The initials are decoration; `name` is said by the text beside it, or with `isAlone` by the avatar itself. */
export function Avatar({ id, name, size = 20, isAlone = false }: AvatarProps) {
  const colour = COLOURS[[...id].reduce((sum, letter) => sum + letter.charCodeAt(0), 0) % COLOURS.length];
  return (
    <span
      role={isAlone ? 'img' : undefined}
      aria-label={isAlone ? name : undefined}
      aria-hidden={isAlone ? undefined : true}
      className={cn(
        'inline-flex shrink-0 items-center justify-center rounded-full font-semibold select-none',
        size >= 24 ? 'size-7 text-2xs' : 'size-5 text-[0.5rem]',
        'before:content-[attr(data-initials)]',
        colour,
      )}
      data-initials={initials(name)}
    />
  );
}

interface AvatarProps {
  id: string;
  name: string;
  size?: 20 | 28;
  isAlone?: boolean;
}
