/** The columns of a grid: their labels, widths, and which ones are hidden. */

import type { TableColumn } from '../api/types';
import { keyLabel } from '../fields/labels';
import { pathSteps } from '../fields/paths';
import { visibleText } from '../shared/format';
import { persisted } from '../shared/persisted';

export interface GridColumn extends TableColumn {
  label: string;
  /** Pixels. */
  width: number;
  /** The least decimal places of its numbers; all of them have as many if `isExact`. */
  decimals: number;
  isExact: boolean;
}

/** What the values of a column need: the pixels of the longest, and decimal places. */
export interface ColumnMeasure {
  width: number;
  decimals: number;
}

/** A person's choice for one table: hidden columns, the widths of resized ones in pixels, and decimal places. */
interface Layout {
  hidden: readonly string[];
  widths: Readonly<Record<string, number>>;
  decimals: Readonly<Record<string, number>>;
}

const DEFAULT_LAYOUT: Layout = { hidden: [], widths: {}, decimals: {} };
const MAX_TABLES = 100;
/** The most pixels, unless a person makes a column wider. */
const WIDEST: Record<TableColumn['type'], number> = { number: 200, date: 180, boolean: 180, text: 260 };
const NARROW = 80; // pixels: a text column that makes room for others
const PADDING = 12; // pixels, as in Grid.module.css
/** Pixels of the icon of a state. */
export const SIGN = 17;
const HEAD_CHARACTER = 6.4;
const REQUIRED = 11; // pixels: the star
/** The positions of the document column and of the first value column; 0 is the checkbox. */
export const DOCUMENT = 1;
export const FIRST = 2;

export const MIN_WIDTH = 56;
export const MAX_WIDTH = 640;

/** The layouts by table. The last ones that were changed are kept. */
export const layouts = persisted<Readonly<Record<string, Layout>>>('fieldmark.tables', (stored) =>
  Object.fromEntries(
    Object.entries((stored ?? {}) as Record<string, Partial<Layout> | null>).map(([key, one]) => [
      key,
      readLayout(one),
    ]),
  ),
);

function readLayout(stored: Partial<Layout> | null): Layout {
  const hidden = Array.isArray(stored?.hidden)
    ? stored.hidden.filter((path): path is string => typeof path === 'string')
    : [];
  const widths = Object.entries(stored?.widths ?? {}).filter(
    ([, width]) => typeof width === 'number' && width >= MIN_WIDTH && width <= MAX_WIDTH,
  );
  const decimals = Object.entries(stored?.decimals ?? {}).filter(([, one]) => Number.isInteger(one) && one >= 0);
  return { hidden, widths: Object.fromEntries(widths), decimals: Object.fromEntries(decimals) };
}

export function layoutOf(all: Readonly<Record<string, Layout>>, table: string): Layout {
  return all[table] ?? DEFAULT_LAYOUT;
}

export function changeLayout(table: string, change: Partial<Layout>): void {
  const { [table]: before = DEFAULT_LAYOUT, ...others } = layouts.get();
  layouts.set(
    Object.fromEntries([...Object.entries(others), [table, { ...before, ...change }] as const].slice(-MAX_TABLES)),
  );
}

export function resizeColumn(table: string, path: string, width: number): void {
  changeLayout(table, { widths: { ...layoutOf(layouts.get(), table).widths, [path]: width } });
}

/** Return the label of a column: its title, else its path in plain words, without the list whose items are the rows; and
 * its unit. */
export function columnLabel({ unit, ...column }: TableColumn, list?: string): string {
  const label = nameLabel(column, list);
  return unit === null || unit === undefined ? label : `${label} (${visibleText(unit)})`;
}

function nameLabel({ path, title }: TableColumn, list?: string): string {
  if (title !== null && title !== '') return visibleText(title);
  const rest = list !== undefined && path.startsWith(`${list}[].`) ? path.slice(list.length + 3) : path;
  const steps = pathSteps(rest.replaceAll('[]', ''));
  return steps === null || steps.length === 0
    ? visibleText(rest)
    : steps.map((step) => keyLabel(String(step))).join(' › ');
}

/** Return the columns with labels and widths. Text columns share the space that is left of `available` pixels. If some is
 * missing, labels are in two lines, then text columns become narrower. */
export function gridColumns(
  columns: readonly TableColumn[],
  layout: Layout,
  measures: ReadonlyMap<string, ColumnMeasure>,
  available: number,
  list?: string,
): GridColumn[] {
  const labels = columns.map((column) => columnLabel(column, list));
  const sized = (headOf: (label: string) => number, most: number) =>
    columns.map((column, at): GridColumn => {
      const { width = 0, decimals: usual = 0 } = measures.get(column.path) ?? {};
      const exact = layout.decimals[column.path];
      // A person's confirmation adds a sign.
      const content = width + PADDING + SIGN;
      const widest = column.type === 'text' ? Math.min(WIDEST.text, most) : WIDEST[column.type];
      const head = Math.min(headOf(labels[at]!) * HEAD_CHARACTER + PADDING + REQUIRED, WIDEST[column.type]);
      return {
        ...column,
        label: labels[at]!,
        decimals: exact ?? usual,
        isExact: exact !== undefined,
        width: layout.widths[column.path] ?? Math.round(Math.max(Math.min(content, widest), head, MIN_WIDTH)),
      };
    });
  const left = (sized: readonly GridColumn[]) => available - sized.reduce((sum, { width }) => sum + width, 0);
  let shown = sized((label) => label.length, WIDEST.text);
  // The widest text columns first.
  for (let most = WIDEST.text; left(shown) < 0 && most >= NARROW; most -= 4) shown = sized(lineLength, most);
  const isFlexible = ({ path, type }: GridColumn) => type === 'text' && layout.widths[path] === undefined;
  const flexible = shown.filter(isFlexible).length;
  const more = Math.min(Math.floor(Math.max(0, left(shown)) / flexible), 200);
  return shown.map((column) => (isFlexible(column) ? { ...column, width: column.width + more } : column));
}

/** Return the characters of the longer line of a label in two lines, which break between words. */
function lineLength(label: string): number {
  const breaks = [...label.matchAll(/ /g)].map(({ index }) => Math.max(index, label.length - index - 1));
  return Math.min(label.length, ...breaks);
}

/** Return the path of a cell: that of its column, with the indexes of the row's list item. `items[].price` in the row
 * `items[2]` is `items[2].price`. */
export function cellPath(column: string, row: string | null): string {
  const indexes = [...(row ?? '').matchAll(/\[(\d+)\]/g)].map(([, index]) => index!);
  return column.replace(/\[\]/g, () => `[${indexes.shift() ?? ''}]`);
}
