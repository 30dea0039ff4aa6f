/** Shows and hides columns. */

import { Columns3 } from 'lucide-react';
import type { TableColumn } from '../api/types';
import { Button } from '../components/ui/Button';
import { Popover } from '../components/ui/Popover';
import { t } from '../shared/i18n';
import { changeLayout, columnLabel } from './gridColumns';

interface Props {
  table: string;
  columns: readonly TableColumn[];
  list: string | undefined;
  hidden: readonly string[];
  onHide: (paths: readonly string[]) => void;
}

export function ColumnsMenu({ table, columns, list, hidden, onHide }: Props) {
  const shown = columns.filter(({ path }) => !hidden.includes(path)).length;
  return (
    <Popover
      align="end"
      title={t('tables.columns')}
      trigger={
        <Button kind="quiet" icon={Columns3}>
          <span className="max-sm:sr-only">
            {shown === columns.length
              ? t('tables.columns')
              : t('tables.shownColumns', { shown, count: columns.length })}
          </span>
        </Button>
      }>
      <div className="grid max-h-96 min-w-52 overflow-auto">
        {columns.map((column) => (
          <label key={column.path} className="flex min-h-7 items-center gap-2 rounded-md px-1 hover:bg-hover">
            <input
              type="checkbox"
              className="accent-primary"
              checked={!hidden.includes(column.path)}
              onChange={({ target }) =>
                onHide(target.checked ? hidden.filter((path) => path !== column.path) : [...hidden, column.path])
              }
            />
            <span className="truncate">{columnLabel(column, list)}</span>
          </label>
        ))}
      </div>
      <div className="mt-2 flex gap-2 border-t border-line pt-2">
        <Button disabled={shown === columns.length} onClick={() => onHide([])}>
          {t('tables.showAll')}
        </Button>
        <Button onClick={() => changeLayout(table, { widths: {} })}>{t('tables.resetWidths')}</Button>
      </div>
    </Popover>
  );
}
