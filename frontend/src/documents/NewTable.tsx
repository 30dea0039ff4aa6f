/** A new table for documents that look alike: its name, its columns and the first rows. */

import { CircleDashed, Pencil } from 'lucide-react';
import { useState } from 'react';
import type { DocumentGroup } from '../api/types';
import { Button } from '../components/ui/Button';
import { Form } from '../components/ui/Form';
import { cn } from '../components/ui/cn';
import { Field } from '../components/ui/Field';
import { Input } from '../components/ui/Input';
import { Popover } from '../components/ui/Popover';
import { commonDecimals, displayValue } from '../fields/fieldValue';
import { visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import type { Placing } from './placing';

interface Props {
  group: Pick<DocumentGroup, 'rows'>;
  placing: Pick<Placing, 'name' | 'columns'>;
  onChange: (placing: Pick<Placing, 'name' | 'columns'>) => void;
}

export function NewTable({ group, placing, onChange }: Props) {
  const { columns } = placing;
  const filled = (column: string) => group.rows.filter((row) => row.values[column] != null).length;
  const decimals = new Map(
    columns.map(({ column: { name } }) => [name, commonDecimals(group.rows.map(({ values }) => values[name]))]),
  );
  const change = (at: number, name: string | null) =>
    onChange({ ...placing, columns: columns.map((one, index) => (index === at ? { ...one, name } : one)) });
  return (
    <div className="min-w-0 rounded-lg border border-border bg-background">
      <div className="flex flex-wrap items-center justify-between gap-x-4 gap-y-1 px-3 py-1.5">
        <label className="flex min-w-0 grow items-center gap-1.5">
          <Input
            aria-label={t('adding.tableName')}
            value={placing.name}
            maxLength={200}
            className="field-sizing-content w-auto! max-w-56 min-w-16 border-transparent! bg-transparent! px-1! font-semibold hover:border-input! focus:border-input!"
            onChange={({ target }) => onChange({ ...placing, name: target.value })}
          />
          <Pencil size={13} className="shrink-0 text-muted-foreground" aria-hidden="true" />
        </label>
        <span className="text-xs text-muted-foreground max-sm:hidden">{t('adding.columnsHint')}</span>
      </div>
      <div
        className="scroll-shadow overflow-x-auto rounded-b-lg"
        role="region"
        aria-label={t('adding.preview')}
        tabIndex={0}>
        <table className="w-full text-left text-sm">
          <thead className="bg-sidebar">
            <tr>
              {columns.map(({ column, name }, at) => (
                <th key={column.name} scope="col" className="h-8 border-y border-border px-0.5 font-normal">
                  <ColumnHead
                    name={name}
                    original={column.name}
                    isNumber={column.type === 'number'}
                    isLast={columns.filter((one) => one.name !== null).length === 1}
                    onChange={(next) => change(at, next)}
                  />
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {group.rows.map((row) => (
              <tr key={row.document_id} className="border-b border-line last:border-0">
                {columns.map(({ column, name }) => {
                  const value = row.values[column.name];
                  // What few of them have is optional.
                  const isMissing = value == null && name !== null && 2 * filled(column.name) >= group.rows.length;
                  return (
                    <td
                      key={column.name}
                      className={cn(
                        'h-8 max-w-34 truncate px-2 whitespace-nowrap',
                        column.type === 'number' && 'text-right',
                        name === null && 'opacity-40',
                        isMissing && 'bg-need-bg text-xs font-medium text-need',
                      )}>
                      {isMissing ? (
                        <span className="inline-flex items-center gap-1">
                          <CircleDashed size={12} aria-hidden="true" />
                          {t('adding.missing')}
                        </span>
                      ) : (
                        (shown(value, column.type, decimals.get(column.name)) ?? <span className="text-faint">–</span>)
                      )}
                    </td>
                  );
                })}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </div>
  );
}

function shown(value: unknown, type: string, decimals = 0): string | null {
  return value == null ? null : displayValue(value, { type: type === 'text' ? 'string' : type, decimals });
}

interface HeadProps {
  /** null: left out. */
  name: string | null;
  original: string;
  isNumber: boolean;
  /** The only column that is left. */
  isLast: boolean;
  onChange: (name: string | null) => void;
}

function ColumnHead({ name, original, isNumber, isLast, onChange }: HeadProps) {
  const [open, setOpen] = useState(false);
  const label = visibleText((name ?? original).replaceAll('_', ' '));
  return (
    <Popover
      open={open}
      onOpenChange={setOpen}
      className="w-60"
      trigger={
        <button
          type="button"
          className={cn(
            'min-h-7 w-full rounded-md px-1.5 text-xs whitespace-nowrap text-muted-foreground first-letter:uppercase hover:bg-hover data-popup-open:bg-hover',
            isNumber ? 'text-right' : 'text-left',
            name === null && 'line-through',
          )}>
          {label}
          {name === null && <span className="sr-only"> ({t('adding.leftOut')})</span>}
        </button>
      }>
      {name === null ? (
        <Button className="w-full" onClick={() => onChange(original)}>
          {t('adding.takeBack')}
        </Button>
      ) : (
        <Form className="grid gap-2" onSubmit={() => setOpen(false)}>
          <Field label={t('adding.columnName')}>
            <Input
              defaultValue={name}
              maxLength={200}
              onChange={({ target }) => target.value.trim() !== '' && onChange(target.value.trim())}
            />
          </Field>
          <div className="flex justify-between gap-2">
            <Button
              disabled={isLast}
              onClick={() => {
                onChange(null);
                setOpen(false);
              }}>
              {t('adding.leaveOut')}
            </Button>
            <Button kind="main" type="submit">
              {t('common.done')}
            </Button>
          </div>
        </Form>
      )}
    </Popover>
  );
}
