/** Shows and hides columns. The choice is kept in the browser, for each table. */

import { Popover } from '@base-ui/react/popover';
import type { TableColumn } from '../api/types';
import { Button } from '../components/ui/Button';
import { t } from '../shared/i18n';
import { Icon } from '../shared/Icon';
import { changeLayout, columnLabel } from './gridColumns';
import styles from './Tables.module.css';

interface Props {
  table: string;
  columns: readonly TableColumn[];
  list: string | undefined;
  hidden: readonly string[];
}

export function ColumnsMenu({ table, columns, list, hidden }: Props) {
  const hide = (paths: readonly string[]) => changeLayout(table, { hidden: paths });
  const some = columns.filter(({ path }) => hidden.includes(path)).length;
  return (
    <Popover.Root>
      <Popover.Trigger
        render={
          <Button>
            <Icon name="columns" /> <span className={styles.label}>{t('tables.columns')}</span>
            {some > 0 && <span className={styles.number}>{`${columns.length - some}/${columns.length}`}</span>}
          </Button>
        }
      />
      <Popover.Portal>
        <Popover.Positioner className={styles.place} align="end" sideOffset={4}>
          <Popover.Popup className={styles.popup} aria-label={t('tables.columns')}>
            <div className={styles.checks}>
              {columns.map((column) => (
                <label key={column.path}>
                  <input
                    type="checkbox"
                    checked={!hidden.includes(column.path)}
                    onChange={({ target }) =>
                      hide(target.checked ? hidden.filter((path) => path !== column.path) : [...hidden, column.path])
                    }
                  />
                  <span className="truncate">{columnLabel(column, list)}</span>
                </label>
              ))}
            </div>
            <Button kind="quiet" disabled={some === 0} onClick={() => hide([])}>
              {t('tables.showAll')}
            </Button>
            <Button kind="quiet" onClick={() => changeLayout(table, { widths: {} })}>
              {t('tables.resetWidths')}
            </Button>
          </Popover.Popup>
        </Popover.Positioner>
      </Popover.Portal>
    </Popover.Root>
  );
}
