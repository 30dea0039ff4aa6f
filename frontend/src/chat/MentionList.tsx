/** The suggestions for a mention. */

import { useEffect, useRef } from 'react';
import { t } from '../shared/i18n';
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
    <ul className={styles.suggestions} role="listbox" id={id} aria-label={t('chat.mention')} ref={list}>
      {items.map((one, index) => (
        <li
          key={one.id}
          id={`${id} ${index}`}
          role="option"
          aria-selected={index === active}
          // Keep the focus in the text.
          onPointerDown={(event) => event.preventDefault()}
          onClick={() => onChoose(one)}>
          <span className={styles.kind}>{t(`chat.mentionTypes.${one.type}`)}</span>
          <span className="truncate">{one.name}</span>
          {one.note !== undefined && <span className="muted">{one.note}</span>}
        </li>
      ))}
    </ul>
  );
}
