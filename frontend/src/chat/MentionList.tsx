/** What a word behind an `@` may mean, to choose from. */

import { useEffect, useRef } from 'react';
import styles from './Chat.module.css';
import type { Mention } from './mentions';

interface Props {
  id: string;
  items: readonly Mention[];
  active: number;
  onChoose: (one: Mention) => void;
}

export function MentionList({ id, items, active, onChoose }: Props) {
  const list = useRef<HTMLUListElement>(null);
  useEffect(() => {
    list.current?.children[active]?.scrollIntoView({ block: 'nearest' });
  }, [active]);
  return (
    <ul className={styles.suggestions} role="listbox" id={id} aria-label="Mention" ref={list}>
      {items.map((one, index) => (
        <li
          key={one.id}
          id={`${id} ${index}`}
          role="option"
          aria-selected={index === active}
          // The caret stays where it is.
          onPointerDown={(event) => event.preventDefault()}
          onClick={() => onChoose(one)}
        >
          <span className={styles.kind}>{one.type}</span>
          <span className="truncate">{one.name}</span>
          {one.note !== undefined && <span className="muted">{one.note}</span>}
        </li>
      ))}
    </ul>
  );
}
