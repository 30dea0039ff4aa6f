/** Edits the columns of a stack. */

import { useEffect, useId, useRef } from 'react';
import { Plus, X } from 'lucide-react';
import type { StackColumn } from '../api/types';
import { Button } from '../components/ui/Button';
import { visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import { columnConflict } from './columnConflict';

const TYPES = ['text', 'number', 'date', 'boolean', 'currency'] as const;
const MAX_COLUMNS = 200; // of the API
/** Of numbers, as the API names them (domain/measures.py), with how some are written. */
const UNITS =
  'g mg kg t l ml cl dl hl cm3 m3 m mm cm km m2 cm2 s min h W kW Wh kWh lb oz gal ft in yd mi d pc % ‰ °C °F'.split(
    ' ',
  );
const WRITTEN: Readonly<Record<string, string>> = { cm3: 'cm³', m3: 'm³', m2: 'm²', cm2: 'cm²' };

export const EMPTY_COLUMN: StackColumn = { name: '', type: 'text', description: null };

interface Props {
  columns: readonly StackColumn[];
  onChange: (columns: StackColumn[]) => void;
}

export function ColumnsEditor({ columns, onChange }: Props) {
  const change = (index: number, to: Partial<StackColumn>) =>
    onChange(columns.map((one, at) => (at === index ? { ...one, ...to } : one)));
  const conflict = columnConflict(columns);
  const message = useId();
  // A new column is named next.
  const rows = useRef<HTMLDivElement>(null);
  const isAdding = useRef(false);
  useEffect(() => {
    if (isAdding.current) [...rows.current!.querySelectorAll<HTMLElement>('[role=group] > input')].at(-2)?.focus();
    isAdding.current = false;
  }, [columns.length]);
  return (
    <div ref={rows} className="grid justify-items-start gap-2">
      <p className="muted">{t('stacks.columnsHint')}</p>
      {columns.map((column, index) => (
        <div
          key={index}
          className="grid w-full gap-2 max-sm:border-b max-sm:border-line max-sm:pb-2 sm:grid-cols-[minmax(0,1fr)_8.75rem_10rem_minmax(0,1.4fr)_auto]"
          role="group"
          aria-label={t('stacks.columnNumber', { number: index + 1 })}>
          <input
            aria-label={t('stacks.columnName')}
            aria-invalid={conflict?.includes(index) === true}
            aria-describedby={conflict?.includes(index) === true ? message : undefined}
            placeholder={t('stacks.columnNameHint')}
            maxLength={200}
            value={column.name}
            onChange={({ target }) => change(index, { name: target.value })}
          />
          <span className="flex gap-2 [&>select]:min-w-0 [&>select]:flex-1">
            <select
              aria-label={t('stacks.columnType')}
              value={column.type}
              onChange={({ target }) => change(index, { type: target.value as StackColumn['type'], unit: null })}>
              {TYPES.map((type) => (
                <option key={type} value={type}>
                  {t(`stacks.types.${type}`)}
                </option>
              ))}
            </select>
            {column.type === 'number' && (
              <select
                aria-label={t('stacks.columnUnit')}
                value={UNITS.find((unit) => unit.toLowerCase() === column.unit?.toLowerCase()) ?? ''}
                onChange={({ target }) => change(index, { unit: target.value === '' ? null : target.value })}>
                <option value="">{t('stacks.noUnit')}</option>
                {UNITS.map((unit) => (
                  <option key={unit} value={unit}>
                    {WRITTEN[unit] ?? unit}
                  </option>
                ))}
              </select>
            )}
          </span>
          <select
            aria-label={t('stacks.columnRequired')}
            value={String(column.required ?? '')}
            onChange={({ target }) =>
              change(index, { required: target.value === '' ? null : target.value === 'true' })
            }>
            <option value="">{t('stacks.requiredByDefault')}</option>
            <option value="true">{t('stacks.isRequired')}</option>
            <option value="false">{t('stacks.isOptional')}</option>
          </select>
          <input
            aria-label={t('stacks.columnDescription')}
            placeholder={t('stacks.columnDescriptionHint')}
            maxLength={2000}
            value={column.description ?? ''}
            onChange={({ target }) => change(index, { description: target.value === '' ? null : target.value })}
          />
          <Button
            kind="quiet"
            label={t('stacks.removeColumn', { name: column.name })}
            onClick={() => onChange(columns.filter((_, at) => at !== index))}>
            <X size={16} aria-hidden="true" />
          </Button>
        </div>
      ))}
      {conflict !== null && (
        <p id={message} className="text-bad" role="alert">
          {t('stacks.sameColumns', {
            one: visibleText(columns[conflict[0]]!.name),
            other: visibleText(columns[conflict[1]]!.name),
          })}
        </p>
      )}
      <Button
        disabled={columns.length >= MAX_COLUMNS}
        onClick={() => {
          isAdding.current = true;
          onChange([...columns, EMPTY_COLUMN]);
        }}>
        <Plus size={16} aria-hidden="true" /> {t('stacks.addColumn')}
      </Button>
    </div>
  );
}

/** Return the columns that have a name, trimmed. */
export function namedColumns(columns: readonly StackColumn[]): StackColumn[] {
  return columns.map((one) => ({ ...one, name: one.name.trim() })).filter(({ name }) => name !== '');
}
