/** What narrows the rows of a table: a button that adds a condition, and a chip for each. */

import { Filter, X } from 'lucide-react';
import { type ReactNode, useState } from 'react';
import type { TableColumn } from '../api/types';
import { Button } from '../components/ui/Button';
import { Form } from '../components/ui/Form';
import { Input } from '../components/ui/Input';
import { Popover } from '../components/ui/Popover';
import { Select } from '../components/ui/Select';
import { formatDay, formatNumber, visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import { parseCell } from './cellValue';
import { columnLabel } from './gridColumns';
import { type Condition, type Operator, operatorsOf, type TableView, takesValue } from '../records/tableView';

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

interface ButtonProps {
  columns: readonly TableColumn[];
  list: string | undefined;
  filter: readonly Condition[];
  /** The column of a new condition; '': the first. null: closed. */
  start: string | null;
  onStart: (path: string | null) => void;
  onFilter: (filter: readonly Condition[]) => void;
}

export function FilterButton({ columns, list, filter, start, onStart, onFilter }: ButtonProps) {
  return (
    <Popover
      open={start !== null}
      onOpenChange={(is) => onStart(is ? '' : null)}
      title={t('tables.filter')}
      align="end"
      trigger={
        <Button kind="quiet" icon={Filter} disabled={filter.length >= MAX_CONDITIONS}>
          <span className="max-sm:sr-only">{t('tables.filter')}</span>
        </Button>
      }>
      <ConditionForm
        key={`${start} ${filter.length}`}
        columns={columns}
        list={list}
        condition={undefined}
        start={start ?? ''}
        canAdd={filter.length + 1 < MAX_CONDITIONS}
        onDone={(condition, isMore) => {
          onFilter([...filter, condition]);
          onStart(isMore ? '' : null);
        }}
      />
    </Popover>
  );
}

interface ChipsProps {
  columns: readonly TableColumn[];
  view: TableView;
  onView: (change: (view: TableView) => TableView) => void;
  /** Some groups are closed. */
  hasClosed: boolean;
  /** Open all groups, or close them. */
  onToggleGroups: () => void;
}

/** What narrows or groups the rows: each can be removed, and a condition changed. */
export function FilterChips({ columns, view, onView, hasClosed, onToggleGroups }: ChipsProps) {
  const { filter = [], list, state, cells, group } = view;
  const isToReview = cells === 'to_review';
  const grouped = columns.find(({ path }) => path === group);
  if (filter.length === 0 && grouped === undefined && state === undefined && (cells === undefined || isToReview))
    return null;
  const setFilter = (next: readonly Condition[]) =>
    onView(({ filter: _, ...others }) => (next.length > 0 ? { ...others, filter: next } : others));
  return (
    <div className="flex shrink-0 flex-wrap items-center gap-1.5 border-b border-border px-4 py-1.5">
      {filter.map((condition, index) => (
        <Chip
          key={index}
          label={conditionLabel(condition, columns, list)}
          form={(close) => (
            <ConditionForm
              columns={columns}
              list={list}
              condition={condition}
              start=""
              onDone={(next) => {
                setFilter([...filter.slice(0, index), next, ...filter.slice(index + 1)]);
                close();
              }}
            />
          )}
          onRemove={() => setFilter(filter.filter((_, at) => at !== index))}
        />
      ))}
      {cells !== undefined && !isToReview && (
        <Chip
          label={`${t('tables.cells')}: ${t(`fields.statuses.${cells}`)}`}
          onRemove={() => onView(({ cells: _, ...others }) => others)}
        />
      )}
      {state !== undefined && (
        <Chip label={t(`statuses.${state}`)} onRemove={() => onView(({ state: _, ...others }) => others)} />
      )}
      {grouped !== undefined && (
        <>
          <Chip
            label={t('tables.groupedBy', { column: columnLabel(grouped, list) })}
            onRemove={() => onView(({ group: _, ...others }) => others)}
          />
          <Button kind="quiet" onClick={onToggleGroups}>
            {t(hasClosed ? 'tables.openGroups' : 'tables.closeGroups')}
          </Button>
        </>
      )}
    </div>
  );
}

interface ChipProps {
  label: string;
  form?: (close: () => void) => ReactNode;
  onRemove: () => void;
}

function Chip({ label, form, onRemove }: ChipProps) {
  const [isOpen, setOpen] = useState(false);
  return (
    <span className="inline-flex min-h-6 max-w-88 items-center rounded-full border border-input text-xs">
      {form === undefined ? (
        <span className="truncate pl-2.5">{label}</span>
      ) : (
        <Popover
          open={isOpen}
          onOpenChange={setOpen}
          title={t('tables.filter')}
          trigger={
            <button type="button" className="truncate pl-2.5 hover:text-link">
              {label}
            </button>
          }>
          {form(() => setOpen(false))}
        </Popover>
      )}
      <button
        type="button"
        className="grid size-6 shrink-0 place-items-center text-muted-foreground hover:text-foreground"
        aria-label={t('tables.removeFilter', { condition: label })}
        onClick={onRemove}>
        <X size={12} aria-hidden="true" />
      </button>
    </span>
  );
}

interface FormProps {
  columns: readonly TableColumn[];
  list: string | undefined;
  condition: Condition | undefined;
  /** The column of a new one. */
  start: string;
  /** Another one can follow. */
  canAdd?: boolean;
  onDone: (condition: Condition, isMore: boolean) => void;
}

function ConditionForm({ columns, list, condition, start, canAdd = false, onDone }: FormProps) {
  const [path, setPath] = useState((condition?.path ?? start) || (columns[0]?.path ?? ''));
  const column = columns.find((one) => one.path === path);
  const type = column?.type ?? 'text';
  const operators = operatorsOf(type);
  const [chosen, setOp] = useState<Operator | undefined>(condition?.op);
  const op = chosen !== undefined && operators.includes(chosen) ? chosen : operators[0]!;
  const [text, setText] = useState(() => valueText(condition?.value));
  const [problem, setProblem] = useState<string | null>(null);

  function submit(isMore: boolean) {
    if (!takesValue(op)) return onDone({ path, op }, isMore);
    const parsed = parseCell(type === 'boolean' && text === '' ? t('common.yes') : text, type);
    if ('problem' in parsed) return setProblem(t(`tables.problems.${parsed.problem}`));
    if (parsed.value === null) return setProblem(t('tables.problems.empty'));
    const isQuoted = type === 'text';
    return onDone({ path, op, value: isQuoted ? JSON.stringify(parsed.value) : String(parsed.value) }, isMore);
  }
  return (
    <Form className="grid w-56 gap-2" onSubmit={() => submit(false)}>
      <Select
        label={t('tables.column')}
        value={path}
        options={columns.map((one) => ({ value: one.path, label: columnLabel(one, list) }))}
        onChange={setPath}
      />
      <Select
        label={t('tables.operator')}
        value={op}
        options={operators.map((one) => ({ value: one, label: operatorLabel(one, type) }))}
        onChange={setOp}
      />
      {takesValue(op) &&
        (type === 'boolean' ? (
          <Select
            label={t('common.value')}
            value={text || t('common.yes')}
            options={[t('common.yes'), t('common.no')].map((one) => ({ value: one, label: one }))}
            onChange={setText}
          />
        ) : (
          <Input
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
        <p className="text-bad" role="alert">
          {problem}
        </p>
      )}
      <div className="flex justify-end gap-2">
        {canAdd && <Button onClick={() => submit(true)}>{t('tables.and')}</Button>}
        <Button kind="main" type="submit">
          {t('tables.apply')}
        </Button>
      </div>
    </Form>
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
