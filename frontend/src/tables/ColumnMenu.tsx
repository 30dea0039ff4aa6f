/** The menu of a column: review it, sort in the words of its type, filter, group, required, format, hide. */

import { Menu } from '@base-ui/react/menu';
import { useQuery } from '@tanstack/react-query';
import { ArrowDown, ArrowUp, Asterisk, EyeOff, Filter, Group, Hash, ListChecks } from 'lucide-react';
import type { ReactNode } from 'react';
import { api } from '../api/client';
import { cn } from '../components/ui/cn';
import { MenuItem, MenuSeparator, SubMenu } from '../components/ui/Menu';
import { itemClass, popupClass } from '../components/ui/popup';
import { formatNumber } from '../shared/format';
import { t } from '../shared/i18n';
import { cellId } from './grid';
import { changeLayout, type GridColumn } from './gridColumns';
import { countQuery, tableKey, type TableRequest } from '../records/tableQueries';
import type { RowsView } from '../records/tableView';
import { useChange } from '../shared/useChange';

const DECIMALS = [null, 0, 2, 3, 4] as const;

interface Props {
  column: GridColumn;
  /** Its position in the grid, for the place of the menu. */
  index: number;
  request: TableRequest;
  schemaId: string | null;
  required: readonly string[];
  decimals: Readonly<Record<string, number>>;
  canWrite: boolean;
  onClose: () => void;
  onReview: () => void;
  onSort: (change: Pick<RowsView, 'sort' | 'descending'>) => void;
  onGroup: (path: string | undefined) => void;
  onFilter: () => void;
  onHide: () => void;
}

export function ColumnMenu(props: Props) {
  const { column, index, request, schemaId, required, decimals, canWrite } = props;
  const { path, type } = column;
  const filter = request.filter ?? [];
  const count = (more: Partial<TableRequest>, of?: string) => countQuery({ ...request, ...more }, of);
  const all = useQuery(count({})).data;
  const filled = useQuery(count({ filter: [...filter, { path, op: 'exists' }] })).data;
  const open = useQuery(count({ cells: 'to_review' }, path)).data ?? 0;
  const order = type === 'boolean' ? 'text' : type;
  const format = decimals[path];
  return (
    <Menu.Root open modal={false} onOpenChange={(is) => !is && props.onClose()}>
      <Menu.Portal>
        <Menu.Positioner
          anchor={() => document.getElementById(cellId(-1, index))}
          align="end"
          sideOffset={2}
          collisionPadding={8}
          className="z-50 outline-none">
          <Menu.Popup
            aria-label={t('tables.columnMenu', { column: column.label })}
            className={cn(popupClass, 'max-h-(--available-height) w-60 overflow-y-auto')}>
            <p className="flex items-baseline gap-2 px-2 py-1">
              <b className="min-w-0 truncate font-semibold">{column.label}</b>
              <span className="flex-1 text-xs text-muted-foreground">{t(`stacks.types.${type}`)}</span>
              {filled !== undefined && all !== undefined && (
                <span className="text-xs text-muted-foreground">{t('tables.filled', { count: filled, all })}</span>
              )}
            </p>
            <MenuItem
              icon={ListChecks}
              disabled={open === 0}
              keys="R"
              hint={formatNumber(open)}
              onChoose={props.onReview}>
              <span className={cn(open > 0 && 'text-need')}>{t('tables.reviewColumn')}</span>
            </MenuItem>
            <MenuSeparator />
            <MenuItem icon={ArrowUp} onChoose={() => props.onSort({ sort: path })}>
              {t(`tables.sorts.${order}.ascending`)}
            </MenuItem>
            <MenuItem icon={ArrowDown} onChoose={() => props.onSort({ sort: path, descending: true })}>
              {t(`tables.sorts.${order}.descending`)}
            </MenuItem>
            <MenuItem icon={Filter} onChoose={props.onFilter}>
              {t('tables.filterColumn')}
            </MenuItem>
            <MenuItem icon={Group} onChoose={() => props.onGroup(request.group === path ? undefined : path)}>
              {t(request.group === path ? 'tables.ungroup' : 'tables.groupBy')}
            </MenuItem>
            <MenuSeparator />
            {schemaId !== null && (
              <Required schemaId={schemaId} path={path} required={required} disabled={!canWrite}>
                {t('tables.required')}
              </Required>
            )}
            {type === 'number' && (
              <SubMenu icon={Hash} label={t('tables.format')}>
                {DECIMALS.map((one) => (
                  <MenuItem
                    key={one}
                    chosen={(format ?? null) === one}
                    onChoose={() => {
                      const { [path]: _, ...others } = decimals;
                      changeLayout(tableKey(request), { decimals: one === null ? others : { ...others, [path]: one } });
                    }}>
                    {one === null
                      ? t('tables.asRead')
                      : formatNumber(1234.5678, { minimumFractionDigits: one, maximumFractionDigits: one })}
                  </MenuItem>
                ))}
              </SubMenu>
            )}
            <MenuItem icon={EyeOff} onChoose={props.onHide}>
              {t('tables.hide')}
            </MenuItem>
          </Menu.Popup>
        </Menu.Positioner>
      </Menu.Portal>
    </Menu.Root>
  );
}

/** A switch. It names the column in the schema, whatever the share of rows with a value. */
function Required({
  schemaId,
  path,
  required,
  disabled,
  children,
}: {
  schemaId: string;
  path: string;
  required: readonly string[];
  disabled: boolean;
  children: ReactNode;
}) {
  const is = required.includes(path);
  const change = useChange(['records', 'stacks', 'schemas'], async () => {
    const params = { path: { schema_id: schemaId } };
    const stored = await api.get('/api/schemas/{schema_id}', params);
    const schema = stored.schema as Record<string, unknown>;
    const own = (schema['x-fieldmark'] ?? {}) as Record<string, unknown>;
    const columns = is ? required.filter((one) => one !== path) : [...required, path];
    const body = { schema: { ...schema, 'x-fieldmark': { ...own, required: columns } } };
    return api.patch('/api/schemas/{schema_id}', { ...params, body });
  });
  return (
    <Menu.CheckboxItem
      className={itemClass}
      checked={change.isPending ? !is : is}
      disabled={disabled || change.isPending}
      onCheckedChange={() => change.mutate()}>
      <Asterisk size={15} strokeWidth={1.75} className="shrink-0" aria-hidden="true" />
      <span className="flex-1">{children}</span>
      <span className="flex h-4 w-7 items-center rounded-full bg-input p-0.5 in-aria-checked:justify-end in-aria-checked:bg-primary">
        <span className="size-3 rounded-full bg-white" />
      </span>
    </Menu.CheckboxItem>
  );
}
