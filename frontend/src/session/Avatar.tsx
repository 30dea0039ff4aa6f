/** A person: the initials of their name in a colour of their own. */

import { cn } from '../components/ui/cn';
import { useFullName, usePersonName } from './people';

const COLOURS = [
  'bg-person-1-bg text-person-1',
  'bg-person-2-bg text-person-2',
  'bg-person-3-bg text-person-3',
  'bg-person-4-bg text-person-4',
] as const;

interface Props {
  id: string;
  size?: 20 | 28;
  /** No text beside it says who it is: the avatar does. */
  isAlone?: boolean;
}

export function Avatar({ id, size = 20, isAlone = false }: Props) {
  const personName = usePersonName(true);
  const fullName = useFullName();
  const colour = COLOURS[[...id].reduce((sum, letter) => sum + letter.charCodeAt(0), 0) % COLOURS.length];
  return (
    <span
      role={isAlone ? 'img' : undefined}
      aria-label={isAlone ? personName(id) : undefined}
      aria-hidden={isAlone ? undefined : true}
      className={cn(
        'inline-flex shrink-0 items-center justify-center rounded-full font-semibold select-none',
        size >= 24 ? 'size-7 text-2xs' : 'size-5 text-[0.5rem]',
        'before:content-[attr(data-initials)]',
        colour,
      )}
      data-initials={initials(fullName(id))}
    />
  );
}

/** Return the initials of "Jo Doyle". */
function initials(name: string): string {
  const words = name.split(' ').filter(Boolean);
  const letters = words.length > 1 ? [words[0]!, words.at(-1)!] : words;
  return letters.map((word) => [...word][0]!.toUpperCase()).join('');
}
