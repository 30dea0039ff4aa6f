/** Adds unmapped text as a field: the field's path and value. */

import { useQuery } from '@tanstack/react-query';
import { useId, useMemo, useState, type KeyboardEvent } from 'react';
import type { Extraction } from '../../api/types';
import { Button } from '../../components/ui/Button';
import { Input } from '../../components/ui/Input';
import { visibleText } from '../../shared/format';
import { t } from '../../shared/i18n';
import { knownFieldsQuery, schemaOfQuery } from '../../fields/extractionQueries';
import { pathSteps, valueAt } from '../../fields/paths';
import { displayValue, editedText, parseEdited } from '../../fields/fieldValue';
import { schemaFields } from '../../fields/schemaFields';
import { suggestedPaths, valueFor } from './suggestedPaths';
import type { Unmapped } from './unmappedItems';

const MAX_SUGGESTIONS = 6;

interface Props {
  extraction: Extraction;
  item: Unmapped;
  isOpen: boolean;
  onOpen: () => void;
  onClose: () => void;
  /** What was entered before, if saving it failed. */
  draft: Draft | undefined;
  onAdd: (path: string, value: unknown, draft: Draft) => void;
}

export interface Draft {
  path: string;
  /** null: the value as read from the page. */
  text: string | null;
}

export function AddUnmappedField({ extraction, item, isOpen, onOpen, onClose, draft, onAdd }: Props) {
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
  const suggestions = all
    .filter((one) => one.path.toLowerCase().includes(typed) && one.path !== path)
    .slice(0, MAX_SUGGESTIONS);
  const suggestedValue = valueFor(item, all.find((one) => one.path === path.trim())?.valueType ?? null);
  const existing = typed === '' ? undefined : valueAt(extraction.extracted_fields, pathSteps(path.trim()) ?? ['']);

  const add = (to: string) => {
    if (to === '') return;
    const own = valueFor(item, all.find((one) => one.path === to)?.valueType ?? null);
    // An ambiguous number has no value of its own: parse what was entered as a number.
    const value = text === null ? own : parseEdited(text, item.kind === 'number' && item.value === null ? 0 : own);
    onAdd(to, value, { path: to, text });
  };
  const press = (event: KeyboardEvent) => {
    if (event.repeat || event.nativeEvent.isComposing) return;
    if (event.key === 'Enter') add((suggestions[active]?.path ?? path).trim());
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
    <section className="grid shrink-0 gap-2 border-t border-border p-3" aria-label={t('unmapped.add')}>
      <div className="flex min-h-7 items-center gap-2">
        <strong className="min-w-12 truncate">{visibleText(item.text)}</strong>
        <span className="flex-1 text-xs text-muted-foreground">
          {t(`unmapped.found.${item.kind}`, { page: item.page })}
        </span>
        {!isOpen && (
          <Button keys="↵" onClick={onOpen}>
            {t('unmapped.add')}
          </Button>
        )}
      </div>
      {isOpen && (
        <>
          <div className="grid grid-cols-[repeat(auto-fit,minmax(9rem,1fr))] gap-2">
            <label className="grid min-w-0 gap-1">
              <span className="text-xs text-muted-foreground">{t('common.field')}</span>
              <Input
                value={path}
                placeholder={t('unmapped.namePlaceholder')}
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
            <label className="grid min-w-0 gap-1">
              <span className="text-xs text-muted-foreground">
                {typeof suggestedValue === 'number' && text === null ? t('unmapped.numberValue') : t('common.value')}
              </span>
              <Input
                value={text ?? editedText(suggestedValue)}
                spellCheck={false}
                autoComplete="off"
                onValueChange={setText}
                onKeyDown={press}
              />
            </label>
          </div>
          {existing !== undefined && existing !== null && existing !== '' && (
            <p className="text-need">{t('unmapped.overwrites', { value: displayValue(existing) })}</p>
          )}
          {suggestions.length > 0 && (
            <ul className="flex flex-wrap gap-1" role="listbox" id={id} aria-label={t('unmapped.emptyFields')}>
              {suggestions.map((one, index) => (
                <li
                  key={one.path}
                  id={`${id} ${index}`}
                  role="option"
                  aria-selected={index === active}
                  className="min-h-6 max-w-full cursor-pointer truncate rounded-md border border-border px-2 leading-6 hover:bg-hover aria-selected:border-primary aria-selected:bg-accent"
                  // Keep the focus in the input.
                  onPointerDown={(event) => event.preventDefault()}
                  onClick={() => {
                    setPath(one.path);
                    setActive(-1);
                  }}>
                  {visibleText(one.path)}
                </li>
              ))}
            </ul>
          )}
          <div className="flex flex-wrap gap-2">
            <Button
              kind="main"
              keys="↵"
              disabled={path.trim() === '' && active < 0}
              onClick={() => add((suggestions[active]?.path ?? path).trim())}>
              {t('unmapped.addSubmit')}
            </Button>
            <Button kind="quiet" keys="Esc" onClick={onClose}>
              {t('common.cancel')}
            </Button>
          </div>
        </>
      )}
    </section>
  );
}
