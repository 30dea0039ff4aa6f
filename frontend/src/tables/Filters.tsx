/** The conditions of a table: a button that adds one, and a chip for each. */

import { Popover } from '@base-ui/react/popover';
import { useState } from 'react';
import type { TableColumn } from '../api/types';
import { Button } from '../components/ui/Button';
import { formatDay, formatNumber, visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import { Icon } from '../shared/Icon';
import { parseCell } from './cellValue';
import { columnLabel } from './gridColumns';
import styles from './Tables.module.css';
import { operatorsOf, takesValue, type Condition, type Operator } from './tableView';

const MAX_CONDITIONS = 20; // of the API

const OPERATOR_KEYS = {
  '=': 'is',
  '!=': 'isNot',
  '<': 'less',
  '<=': 'atMost',
  '>': 'more',
  '>=': 'atLeast',
  contains: 'contains',
  exists: 'exists',
  missing: 'missing',
} as const satisfies Record<Operator, string>;

interface Props {
  columns: readonly TableColumn[];
  list: string | undefined;
  filter: readonly Condition[];
  onFilter: (filter: readonly Condition[]) => void;
}

export function Filters({ columns, list, filter, onFilter }: Props) {
  // The index of the condition that is edited; that of a new one is after the last.
  const [open, setOpen] = useState<number | null>(null);
  const place = (condition: Condition, index: number) => {
    onFilter([...filter.slice(0, index), condition, ...filter.slice(index + 1)]);
    setOpen(null);
  };
  const form = (index: number, trigger: React.ReactElement) => (
    <Popover.Root key={index} open={open === index} onOpenChange={(is) => setOpen(is ? index : null)}>
      <Popover.Trigger render={trigger} />
      <Popover.Portal>
        <Popover.Positioner className={styles.place} align="start" sideOffset={4}>
          <Popover.Popup className={styles.popup} aria-label={t('tables.filter')}>
            <ConditionForm
              columns={columns}
              list={list}
              condition={filter[index]}
              onDone={(condition) => place(condition, index)}
            />
          </Popover.Popup>
        </Popover.Positioner>
      </Popover.Portal>
    </Popover.Root>
  );
  return (
    <>
      {form(
        filter.length,
        <Button disabled={filter.length >= MAX_CONDITIONS}>
          <Icon name="filter" /> {t('tables.filter')}
        </Button>,
      )}
      {filter.map((condition, index) => (
        <span key={index} className={styles.chip}>
          {form(index, <button type="button">{conditionLabel(condition, columns, list)}</button>)}
          <button
            type="button"
            className={styles.remove}
            aria-label={t('tables.removeFilter', { condition: conditionLabel(condition, columns, list) })}
            onClick={() => onFilter(filter.filter((_, at) => at !== index))}>
            <Icon name="cross" size={11} />
          </button>
        </span>
      ))}
    </>
  );
}

interface FormProps {
  columns: readonly TableColumn[];
  list: string | undefined;
  condition: Condition | undefined;
  onDone: (condition: Condition) => void;
}

function ConditionForm({ columns, list, condition, onDone }: FormProps) {
  const [path, setPath] = useState(condition?.path ?? columns[0]?.path ?? '');
  const column = columns.find((one) => one.path === path);
  const type = column?.type ?? 'text';
  const operators = operatorsOf(type);
  const [chosen, setOp] = useState<Operator | undefined>(condition?.op);
  const op = chosen !== undefined && operators.includes(chosen) ? chosen : operators[0]!;
  const [text, setText] = useState(() => valueText(condition?.value));
  const [problem, setProblem] = useState<string | null>(null);

  function submit() {
    if (!takesValue(op)) return onDone({ path, op });
    const parsed = parseCell(type === 'boolean' && text === '' ? t('common.yes') : text, type);
    if ('problem' in parsed) return setProblem(t(`tables.problems.${parsed.problem}`));
    if (parsed.value === null) return setProblem(t('tables.problems.empty'));
    const isQuoted = type === 'text';
    return onDone({ path, op, value: isQuoted ? JSON.stringify(parsed.value) : String(parsed.value) });
  }
  return (
    <form
      className={styles.form}
      onSubmit={(event) => {
        event.preventDefault();
        submit();
      }}>
      <select aria-label={t('tables.column')} value={path} onChange={({ target }) => setPath(target.value)}>
        {columns.map((one) => (
          <option key={one.path} value={one.path}>
            {columnLabel(one, list)}
          </option>
        ))}
      </select>
      <select aria-label={t('tables.operator')} value={op} onChange={({ target }) => setOp(target.value as Operator)}>
        {operators.map((one) => (
          <option key={one} value={one}>
            {operatorLabel(one, type)}
          </option>
        ))}
      </select>
      {takesValue(op) &&
        (type === 'boolean' ? (
          <select
            aria-label={t('common.value')}
            value={text || t('common.yes')}
            onChange={({ target }) => setText(target.value)}>
            {[t('common.yes'), t('common.no')].map((one) => (
              <option key={one}>{one}</option>
            ))}
          </select>
        ) : (
          <input
            aria-label={t('common.value')}
            aria-invalid={problem !== null}
            placeholder={type === 'date' ? t('tables.datePlaceholder') : ''}
            maxLength={500}
            value={text}
            autoFocus
            onChange={({ target }) => {
              setText(target.value);
              setProblem(null);
            }}
          />
        ))}
      {problem !== null && (
        <p className={styles.problem} role="alert">
          {problem}
        </p>
      )}
      <Button kind="main" type="submit">
        {t('tables.apply')}
      </Button>
    </form>
  );
}

function operatorLabel(op: Operator, type: TableColumn['type']): string {
  const key = OPERATOR_KEYS[op];
  return type === 'date' && (key === 'less' || key === 'atMost' || key === 'more' || key === 'atLeast')
    ? t(`tables.dateOperators.${key}`)
    : t(`tables.operators.${key}`);
}

function conditionLabel(
  { path, op, value }: Condition,
  columns: readonly TableColumn[],
  list: string | undefined,
): string {
  const column = columns.find((one) => one.path === path);
  const type = column?.type ?? 'text';
  const label = column === undefined ? visibleText(path) : columnLabel(column, list);
  return [label, operatorLabel(op, type), ...(value === undefined ? [] : [shownValue(value, type)])].join(' ');
}

function shownValue(value: string, type: TableColumn['type']): string {
  if (type === 'number' && Number.isFinite(Number(value)))
    return formatNumber(Number(value), { maximumFractionDigits: 15 });
  if (type === 'date' && !Number.isNaN(Date.parse(value))) return formatDay(value);
  return type === 'boolean' ? t(value === 'true' ? 'common.yes' : 'common.no') : visibleText(valueText(value));
}

/** Return the text of a condition's value, without the quotes of a text. */
function valueText(value: string | undefined): string {
  if (value === undefined || !value.startsWith('"')) return value ?? '';
  try {
    return String(JSON.parse(value));
  } catch {
    return value;
  }
}
