/** The fields of an extraction as rows in its order, each with its evidence and status. */

import type { Box, Evidence, Extraction, FieldError, Lock, Reason, RuleFix } from '../api/types';
import type { SchemaField } from './schemaFields';
import type { FieldStatus } from './fieldStatus';
import { fieldLabel, schemaPath } from './labels';
import { childName, pathSteps, valueAt, type Step } from './paths';
import { isWithin } from './proposals';

export interface Preview {
  callId: string;
  value: unknown;
  /** Set if it waits for approval. */
  waits?: { evidence: Evidence; confidence: number | undefined };
}

export interface Leaf {
  kind: 'leaf';
  path: string;
  label: string;
  depth: number;
  value: unknown;
  evidence: Evidence | undefined;
  confidence: number | undefined;
  lock: Lock | undefined;
  errors: readonly FieldError[];
  status: FieldStatus;
  reason: Reason | null;
  /** The field in the schema. */
  field?: SchemaField | undefined;
}

export interface Group {
  kind: 'group';
  path: string;
  label: string;
  depth: number;
  /** The number of its direct children. */
  size: number;
  isList: boolean;
  errors: readonly FieldError[];
  /** undefined: the object or list itself is right; its values have their own. */
  status: FieldStatus | undefined;
  reason: Reason | null;
}

export type FieldRow = Leaf | Group;

/** Whether the value is stored, so that it can be edited. */
export function isStored(row: Leaf): boolean {
  return row.status !== 'preview' && row.status !== 'waiting' && row.status !== 'saving';
}

/** Of a value that was read before its status. */
const NOT_WRITTEN = { status: 'not_written', reason: null } as const;

interface Input {
  extraction: Pick<Extraction, 'extracted_fields' | 'evidence' | 'confidence_scores' | 'locks' | 'statuses'>;
  errors?: readonly FieldError[];
  /** Values that would satisfy a failed rule: its error is also shown at the fields that they would replace. */
  ruleFixes?: readonly RuleFix[];
  previews?: ReadonlyMap<string, Preview>;
  /** The fields of the schema. Previews and missing fields are placed by its order. */
  schema?: readonly SchemaField[];
  /** Also the fields of the schema that have no value. */
  hasEmpty?: boolean;
  /** The fields in the order in which they were first seen: rows keep their order when values change. Updated. */
  order?: Set<string>;
}

export function fieldRows({
  extraction,
  errors = [],
  ruleFixes = [],
  previews = new Map(),
  schema = [],
  hasEmpty = false,
  order = new Set(),
}: Input): FieldRow[] {
  const evidence = extraction.evidence as Record<string, Evidence | undefined>;
  const errorsAt = byField(errors, ruleFixes);
  // Fields that should have a value and do not exist have a status, too. (That of the path '' is the whole document's.)
  // Other fields of the schema are shown empty, if they are in no list.
  const empty = schema.filter(({ path, type }) => type !== 'object' && !path.includes('[*]')).map(({ path }) => path);
  const missing = [...new Set([...Object.keys(extraction.statuses), ...(hasEmpty ? empty : [])])].filter(
    (path) =>
      path !== '' && !previews.has(path) && valueAt(extraction.extracted_fields, pathSteps(path) ?? ['']) === undefined,
  );
  const fields =
    previews.size + missing.length === 0
      ? extraction.extracted_fields
      : withOthers(extraction.extracted_fields, previews, missing);
  const rows: FieldRow[] = [];

  function add(value: unknown, path: string, depth: number): void {
    const label = fieldLabel(path, schema);
    const children = childrenOf(value);
    if (children !== null && children.length > 0) {
      const { status, reason = null } = extraction.statuses[path] ?? {};
      rows.push({
        kind: 'group',
        path,
        label,
        depth,
        size: children.length,
        isList: Array.isArray(value),
        errors: status === undefined ? [] : (errorsAt.get(path) ?? []),
        status,
        reason,
      });
      const placed = children.map(([step, child]) => ({ child, path: childName(path, step) }));
      for (const one of Array.isArray(value) ? placed : inOrder(placed)) {
        add(one.child, one.path, depth + 1);
      }
      return;
    }
    const preview = previews.get(path);
    const found = preview === undefined ? evidence[path] : preview.waits?.evidence;
    const confidence = preview === undefined ? extraction.confidence_scores[path] : preview.waits?.confidence;
    const lock = extraction.locks[path];
    const { status, reason } =
      preview === undefined
        ? (extraction.statuses[path] ?? NOT_WRITTEN)
        : { status: preview.waits === undefined ? ('preview' as const) : ('waiting' as const), reason: null };
    rows.push({
      kind: 'leaf',
      path,
      label,
      depth,
      value: preview?.value ?? value,
      evidence: found,
      confidence,
      lock,
      errors: errorsAt.get(path) ?? [],
      status,
      reason,
      field: schema.find((one) => one.path === schemaPath(path)),
    });
  }

  addNew(order, nodePaths(extraction.extracted_fields));
  const positions = new Map([...order].map((path, index) => [path, index]));
  const ranks = new Map(schema.map(({ path }, index) => [path, index]));
  const position = (path: string): [number, number] => [
    ranks.get(schemaPath(path)) ?? Infinity,
    positions.get(path) ?? Infinity,
  ];
  const inOrder = <T extends { path: string }>(items: T[]): T[] =>
    items
      .map((item) => ({ item, at: position(item.path) }))
      .toSorted((a, b) => compare(a.at[0], b.at[0]) || compare(a.at[1], b.at[1]))
      .map(({ item }) => item);

  const top = Object.entries(fields).map(([step, child]) => ({ child, path: childName('', step) }));
  for (const { child, path } of inOrder(top)) add(child, path, 0);
  return rows;
}

/** Return the errors of each field. A rule's error counts for every field it uses. For a list it sums, it counts for the
 * items that another printed value would fix. */
function byField(errors: readonly FieldError[], ruleFixes: readonly RuleFix[]): Map<string, FieldError[]> {
  const found = new Map<string, FieldError[]>();
  for (const error of errors) {
    const within = ruleFixes.filter(({ path }) =>
      error.about.some((one) => path.startsWith(`${one}[`) || path.startsWith(`${one}.`)),
    );
    const paths = new Set([error.path, ...error.about, ...within.map(({ path }) => path)]);
    for (const path of paths) found.set(path, [...(found.get(path) ?? []), error]);
  }
  return found;
}

/** Return the paths of all values, objects and lists, in the order of the service. */
function nodePaths(value: unknown, path = ''): string[] {
  return (childrenOf(value) ?? []).flatMap(([step, child]) => {
    const at = childName(path, step);
    return [at, ...nodePaths(child, at)];
  });
}

/** Add new paths, each after the path that precedes it. */
function addNew(order: Set<string>, paths: readonly string[]): void {
  const after = new Map<string, string[]>();
  let before = '';
  for (const path of paths) {
    if (order.has(path)) before = path;
    else if (after.has(before)) after.get(before)!.push(path);
    else after.set(before, [path]);
  }
  if (after.size === 0) return;
  const known = ['', ...order];
  order.clear();
  for (const path of known) {
    if (path !== '') order.add(path);
    for (const added of after.get(path) ?? []) order.add(added);
  }
}

function compare(a: number, b: number): number {
  return a === b ? 0 : a < b ? -1 : 1;
}

function childrenOf(value: unknown): [Step, unknown][] | null {
  if (Array.isArray(value)) return value.map((child, index) => [index, child]);
  return typeof value === 'object' && value !== null ? Object.entries(value) : null;
}

/** Return the fields with previews added, and undefined for missing fields. Paths that do not fit are left out. */
function withOthers(
  fields: Record<string, unknown>,
  previews: ReadonlyMap<string, Preview>,
  missing: readonly string[],
): Record<string, unknown> {
  const copy = structuredClone(fields);
  const others: [string, unknown][] = [
    ...missing.map((path): [string, unknown] => [path, undefined]),
    ...[...previews].map(([path, { value }]): [string, unknown] => [path, value]),
  ];
  for (const [path, value] of others) {
    const steps = pathSteps(path);
    if (steps !== null && steps.length > 0) put(copy, steps, value);
  }
  return copy;
}

function put(root: Record<string, unknown>, steps: readonly Step[], value: unknown): void {
  let at: unknown = root;
  steps.forEach((step, index) => {
    if (typeof at !== 'object' || at === null || Array.isArray(at) !== (typeof step === 'number')) return;
    if (Array.isArray(at) && (step as number) > at.length) return;
    const holder = at as Record<Step, unknown>;
    if (step === '__proto__') return; // an ordinary key for the service, but it must not be set here
    if (index === steps.length - 1) holder[step] = value;
    else if (typeof holder[step] !== 'object' || holder[step] === null)
      holder[step] = typeof steps[index + 1] === 'number' ? [] : {};
    at = holder[step];
  });
}

/** Return where a field is printed; of an object or list, the first page with a value of it, and the box around these. */
export function placeOf(
  rows: readonly FieldRow[],
  field: FieldRow | undefined,
): { page: number; box?: Box } | undefined {
  if (field === undefined) return undefined;
  const printed = (field.kind === 'leaf' ? [field] : rows.filter((row) => isWithin(row.path, field.path))).flatMap(
    (row) => (row.kind === 'leaf' && row.evidence?.page != null ? [row.evidence] : []),
  );
  const page = printed[0]?.page;
  if (page == null) return undefined;
  const boxes = printed.filter((one) => one.page === page).flatMap((one) => (one.boxes ?? []) as Box[]);
  const [first] = boxes;
  if (first === undefined) return { page };
  if (field.kind === 'leaf') return { page, box: first };
  const edge = (side: 0 | 1 | 2 | 3) => boxes.map((box) => box[side]);
  return { page, box: [Math.min(...edge(0)), Math.min(...edge(1)), Math.max(...edge(2)), Math.max(...edge(3))] };
}

/** A box to draw on a page. */
export interface Mark {
  /** The field's path; or the id of unmapped text, which starts with a space, as no path does. */
  path: string;
  box: Box;
  status: FieldStatus | 'unmapped';
  /** Of the answer that it stands for. */
  number?: number;
}

/** Return the boxes to draw, by page. `other` replaces the box of one field. */
export function marksByPage(
  rows: readonly FieldRow[],
  other: { path: string; page: number; box: Box } | null = null,
): Map<number, Mark[]> {
  const marks = new Map<number, Mark[]>();
  for (const row of rows) {
    if (row.kind !== 'leaf' || row.evidence?.page == null || row.path === other?.path) continue;
    const { page } = row.evidence;
    const marksOfPage = marks.get(page) ?? [];
    for (const box of row.evidence.boxes ?? []) marksOfPage.push({ path: row.path, box, status: row.status });
    marks.set(page, marksOfPage);
  }
  if (other !== null)
    marks.set(other.page, [...(marks.get(other.page) ?? []), { path: other.path, box: other.box, status: 'found' }]);
  return marks;
}
