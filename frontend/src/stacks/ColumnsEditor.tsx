/** Edits the columns of a stack. */

import { useId } from 'react';
import type { StackColumn } from '../api/types';
import { Button } from '../components/ui/Button';
import { visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import { Icon } from '../shared/Icon';
import { columnConflict } from './columnConflict';
import styles from './Stacks.module.css';

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
  return (
    <div className={styles.columns}>
      <p className="muted">{t('stacks.columnsHint')}</p>
      {columns.map((column, index) => (
        <div
          key={index}
          className={styles.column}
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
              className={styles.unit}
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
          <select
            className={styles.unit}
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
            className={styles.meaning}
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
            <Icon name="cross" />
          </Button>
        </div>
      ))}
      {conflict !== null && (
        <p id={message} className={styles.conflict} role="alert">
          {t('stacks.sameColumns', {
            one: visibleText(columns[conflict[0]]!.name),
            other: visibleText(columns[conflict[1]]!.name),
          })}
        </p>
      )}
      <Button disabled={columns.length >= MAX_COLUMNS} onClick={() => onChange([...columns, EMPTY_COLUMN])}>
        <Icon name="plus" /> {t('stacks.addColumn')}
      </Button>
    </div>
  );
}

/** Return the columns that have a name, trimmed. */
export function namedColumns(columns: readonly StackColumn[]): StackColumn[] {
  return columns.map((one) => ({ ...one, name: one.name.trim() })).filter(({ name }) => name !== '');
}
