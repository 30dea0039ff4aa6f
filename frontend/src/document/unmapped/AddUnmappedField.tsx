/** Takes what a page prints as a field: which field, and with which value. */

import { useQuery } from '@tanstack/react-query';
import { useId, useMemo, useState, type KeyboardEvent } from 'react';
import type { Extraction } from '../../api/types';
import { Button } from '../../shared/Button';
import { visibleText } from '../../shared/format';
import { knownFieldsQuery, schemaOfQuery } from '../documentPageQueries';
import { pathSteps, valueAt } from '../fields/paths';
import { readWritten, shown, written } from '../fields/fieldValue';
import { schemaFields } from '../schemaFields';
import { suggestedPaths, valueFor } from './suggestedPaths';
import styles from './Unmapped.module.css';
import { KINDS, type Unmapped } from './unmappedItems';

const MOST = 6;

interface Props {
  extraction: Extraction;
  item: Unmapped;
  isOpen: boolean;
  onOpen: () => void;
  onClose: () => void;
  /** What was written here before, and refused. */
  draft: Draft | undefined;
  onTake: (path: string, value: unknown, draft: Draft) => void;
}

export interface Draft {
  path: string;
  /** null: the value is as it was read. */
  text: string | null;
}

export function AddUnmappedField({ extraction, item, isOpen, onOpen, onClose, draft, onTake }: Props) {
  const id = useId();
  const schema = useQuery({ ...schemaOfQuery(extraction.id), enabled: isOpen });
  const known = useQuery({ ...knownFieldsQuery(extraction.document_type), enabled: isOpen });
  const [path, setPath] = useState(draft?.path ?? '');
  const [text, setText] = useState<string | null>(draft?.text ?? null);
  const [active, setActive] = useState(-1);

  const all = useMemo(
    () => suggestedPaths(extraction.extracted_fields, schemaFields(schema.data ?? {}), known.data ?? [], item.kind),
    [extraction, schema.data, known.data, item.kind],
  );
  const typed = path.trim().toLowerCase();
  const suggestions = all.filter((one) => one.path.toLowerCase().includes(typed) && one.path !== path).slice(0, MOST);
  const meant = valueFor(item, all.find((one) => one.path === path.trim())?.wants ?? null);
  const stands = typed === '' ? undefined : valueAt(extraction.extracted_fields, pathSteps(path.trim()) ?? ['']);

  const take = (to: string) => {
    if (to === '') return;
    const own = valueFor(item, all.find((one) => one.path === to)?.wants ?? null);
    // Of what can be read in several ways a number is one that somebody writes.
    const value = text === null ? own : readWritten(text, item.kind === 'number' && item.value === null ? 0 : own);
    onTake(to, value, { path: to, text });
  };
  const press = (event: KeyboardEvent) => {
    if (event.repeat || event.nativeEvent.isComposing) return;
    if (event.key === 'Enter') take((suggestions[active]?.path ?? path).trim());
    else if (event.key === 'Escape') onClose();
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const move = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step === undefined) return press(event);
    event.preventDefault();
    if (suggestions.length > 0) setActive((before) => Math.max(-1, Math.min(suggestions.length - 1, before + step)));
  };

  return (
    <section className={styles.claim} aria-label="Take as a field">
      <div className={styles.claimHead}>
        <strong className="truncate">{visibleText(item.text)}</strong>
        <span className="muted">
          a {KINDS.find((one) => one.kind === item.kind)!.one} on page {item.page}
        </span>
        {!isOpen && (
          <Button onClick={onOpen}>
            Take as a field <kbd>Enter</kbd>
          </Button>
        )}
      </div>
      {isOpen && (
        <>
          <div className={styles.inputs}>
            <label>
              <span className="muted">Field</span>
              <input
                value={path}
                placeholder="vendor.name"
                maxLength={1000}
                spellCheck={false}
                autoComplete="off"
                autoFocus
                role="combobox"
                aria-autocomplete="list"
                aria-expanded={suggestions.length > 0}
                aria-controls={id}
                aria-activedescendant={active >= 0 && active < suggestions.length ? `${id} ${active}` : undefined}
                onChange={(event) => {
                  setPath(event.target.value);
                  setActive(-1);
                }}
                onKeyDown={move}
              />
            </label>
            <label>
              <span className="muted">Value{typeof meant === 'number' && text === null ? ', a number' : ''}</span>
              <input
                value={text ?? written(meant)}
                spellCheck={false}
                autoComplete="off"
                onChange={(event) => setText(event.target.value)}
                onKeyDown={press}
              />
            </label>
          </div>
          {stands !== undefined && stands !== null && stands !== '' && (
            <p className={styles.warning}>Here stands {shown(stands)} already: Enter writes over it.</p>
          )}
          {suggestions.length > 0 && (
            <ul className={styles.suggestions} role="listbox" id={id} aria-label="Fields that are empty">
              {suggestions.map((one, index) => (
                <li
                  key={one.path}
                  id={`${id} ${index}`}
                  role="option"
                  aria-selected={index === active}
                  className="truncate"
                  // The caret stays where it is.
                  onPointerDown={(event) => event.preventDefault()}
                  onClick={() => {
                    setPath(one.path);
                    setActive(-1);
                  }}
                >
                  {visibleText(one.path)}
                </li>
              ))}
            </ul>
          )}
          <div className={styles.kinds}>
            <Button kind="main" disabled={path.trim() === '' && active < 0} onClick={() => take((suggestions[active]?.path ?? path).trim())}>
              Take it <kbd>Enter</kbd>
            </Button>
            <Button kind="quiet" onClick={onClose}>
              Leave it <kbd>Esc</kbd>
            </Button>
          </div>
        </>
      )}
    </section>
  );
}
