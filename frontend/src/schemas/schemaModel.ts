/** A JSON Schema as rows: its top-level fields in order, with type, rule and whether they are required. What a row cannot
 * say is kept as it is. */

export type Shape = Readonly<Record<string, unknown>>;
export type FieldType = 'text' | 'number' | 'date' | 'boolean' | 'choice' | 'rows' | 'object' | 'other';

export interface SchemaRow {
  key: string;
  label: string;
  type: FieldType;
  isRequired: boolean;
  /** It is not said whether it is required: the service decides by how many rows have it. */
  isAutomatic: boolean;
  shape: Shape;
}

export const TYPES = ['text', 'number', 'date', 'boolean', 'choice'] as const;
const EXTENSION = 'x-fieldmark';

const objectOf = (value: unknown): Shape =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Shape) : {};
const listOf = (value: unknown): readonly unknown[] =>
  Array.isArray(value) ? value : value === undefined ? [] : [value];

export function rowsOf(schema: Shape): SchemaRow[] {
  return Object.entries(objectOf(schema.properties)).map(([key, value]) => {
    const shape = objectOf(value);
    const isAutomatic = isNullable(shape) && saidOf(schema, key) === undefined && !isRequired(schema, key);
    return {
      key,
      label: labelOf(key, shape),
      type: typeOf(shape),
      isRequired: isRequired(schema, key),
      isAutomatic,
      shape,
    };
  });
}

function labelOf(key: string, { title }: Shape): string {
  if (typeof title === 'string' && title !== '') return title;
  const words = key.replace(/([a-z\d])([A-Z])/g, '$1 $2').replaceAll(/[_-]+/g, ' ');
  return words.charAt(0).toUpperCase() + words.slice(1);
}

function typeOf(shape: Shape): FieldType {
  if ('enum' in shape) return 'choice';
  const types = listOf(shape.type).filter((one) => one !== 'null');
  if (types.length !== 1) return 'other';
  switch (types[0]) {
    case 'string':
      return shape.format === 'date' ? 'date' : 'text';
    case 'number':
    case 'integer':
      return 'number';
    case 'boolean':
      return 'boolean';
    case 'array':
      return 'rows';
    default:
      return types[0] === 'object' ? 'object' : 'other';
  }
}

const isNullable = (shape: Shape) => listOf(shape.type).includes('null') || listOf(shape.enum).includes(null);

/** A field that may be null is required by a rule of its table, any other by the schema. */
function isRequired(schema: Shape, key: string): boolean {
  return saidOf(schema, key) ?? listOf(schema.required).includes(key);
}

function saidOf(schema: Shape, key: string): boolean | undefined {
  const own = objectOf(objectOf(schema[EXTENSION]).required)[key];
  return typeof own === 'boolean' ? own : undefined;
}

/** As in `stored`, it is said as there, or not said. */
export function setRequired(schema: Shape, key: string, on: boolean, stored: Shape = {}): Shape {
  const shape = objectOf(objectOf(schema.properties)[key]);
  const others = listOf(schema.required).filter((one) => one !== key);
  const { [key]: _, ...ofTable } = objectOf(objectOf(schema[EXTENSION]).required);
  const nullable = isNullable(shape);
  const isAsStored = Object.hasOwn(objectOf(stored.properties), key) && isRequired(stored, key) === on;
  const said = isAsStored ? saidOf(stored, key) : undefined;
  const required = nullable || !on ? others : [...others, key];
  return withExtension(
    { ...without(schema, 'required'), ...(required.length > 0 && { required }) },
    nullable && !isAsStored ? { ...ofTable, [key]: on } : { ...ofTable, ...(said !== undefined && { [key]: said }) },
  );
}

function withExtension(schema: Shape, required: Shape): Shape {
  return setExtension(schema, 'required', Object.keys(required).length > 0 ? required : undefined);
}

function setExtension(schema: Shape, key: string, value: unknown): Shape {
  const next = { ...without(objectOf(schema[EXTENSION]), key), ...(value !== undefined && { [key]: value }) };
  return { ...without(schema, EXTENSION), ...(Object.keys(next).length > 0 && { [EXTENSION]: next }) };
}

export const READINGS = ['off', 'unsure', 'all'] as const;
/** What a second model reads again; null: as the organisation says. */
export type SecondReadingOf = (typeof READINGS)[number] | null;

export function secondReading(schema: Shape): SecondReadingOf {
  const said = objectOf(schema[EXTENSION]).second_reading;
  return READINGS.find((one) => one === said) ?? null;
}

export function setSecondReading(schema: Shape, mode: SecondReadingOf): Shape {
  return setExtension(schema, 'second_reading', mode ?? undefined);
}

function without(schema: Shape, key: string): Shape {
  const { [key]: _, ...rest } = schema;
  return rest;
}

const withProperties = (schema: Shape, entries: readonly (readonly [string, unknown])[]): Shape => ({
  ...schema,
  properties: Object.fromEntries(entries),
});

/** Replace the shape of a field. */
export function setShape(schema: Shape, key: string, shape: Shape): Shape {
  return withProperties(
    schema,
    Object.entries(objectOf(schema.properties)).map(([name, one]) => [name, name === key ? shape : one] as const),
  );
}

/** Set or remove keywords of a field; undefined removes. */
export function changed(shape: Shape, keywords: Shape): Shape {
  return Object.fromEntries(Object.entries({ ...shape, ...keywords }).filter(([, value]) => value !== undefined));
}

const OF_TYPE: Record<(typeof TYPES)[number], Shape> = {
  text: { type: 'string' },
  number: { type: 'number' },
  date: { type: 'string', format: 'date' },
  boolean: { type: 'boolean' },
  choice: { enum: [] },
};

/** Return a field with another type. Its name and how to find it stay, its rules do not. */
export function setType(shape: Shape, type: (typeof TYPES)[number]): Shape {
  const { title, description } = shape;
  const made = OF_TYPE[type];
  const nullable = isNullable(shape) && 'type' in made ? { type: [made.type, 'null'] } : {};
  return changed({ ...made, ...nullable }, { title, description });
}

export function moveField(schema: Shape, from: number, to: number): Shape {
  const entries = Object.entries(objectOf(schema.properties));
  const [moved] = entries.splice(from, 1);
  if (moved !== undefined) entries.splice(to, 0, moved);
  return withProperties(schema, entries);
}

export function addField(schema: Shape, label: string): Shape {
  const properties = objectOf(schema.properties);
  const base =
    label
      .trim()
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}]+/gu, '_')
      .replaceAll(/^_|_$/g, '') || 'field';
  let key = base;
  for (let number = 2; key in properties; number++) key = `${base}_${number}`;
  const shape = labelOf(key, {}) === label.trim() ? {} : { title: label.trim() };
  return withProperties({ type: 'object', ...schema }, [
    ...Object.entries(properties),
    [key, { type: ['string', 'null'], ...shape }],
  ]);
}

export function removeField(schema: Shape, key: string): Shape {
  const next = setRequired(schema, key, false);
  const { [key]: _, ...ofTable } = objectOf(objectOf(next[EXTENSION]).required);
  return withProperties(
    withExtension(next, ofTable),
    Object.entries(objectOf(next.properties)).filter(([name]) => name !== key),
  );
}

/** The rules between fields, each in a line: "total = net + tax". */
export function rulesBetween(schema: Shape): { text: string; fields: string[] }[] {
  const labels = new Map(rowsOf(schema).map(({ key, label }) => [key, label]));
  return listOf(objectOf(schema[EXTENSION]).rules).map((one) => {
    const rule = objectOf(one);
    const each = typeof rule.each === 'string' ? `${rule.each}: ` : '';
    const names = (value: unknown) => listOf(value).map(String);
    const { path, if: condition } = objectOf(rule.required_if);
    const given = objectOf(condition);
    const text =
      'sum' in rule
        ? `${rule.equals} = ${names(rule.sum).join(' + ')}`
        : 'product' in rule
          ? `${rule.equals} = ${names(rule.product).join(' × ')}`
          : 'date_order' in rule
            ? names(rule.date_order).join(' ≤ ')
            : 'required_if' in rule
              ? `${path} ← ${given.path} = ${given.equals}`
              : names(rule.equals).join(' = ');
    const tops = text.match(/[\p{L}_][\p{L}\p{N}_]*/gu) ?? [];
    const inWords = text.replace(/[\p{L}_][\p{L}\p{N}_.[\]]*/gu, (path) => labels.get(path) ?? path);
    return { text: `${each}${inWords}`, fields: [...new Set(tops)] };
  });
}

export interface FieldChange {
  key: string;
  label: string;
  kind: 'added' | 'removed' | 'changed';
  /** What differs: keys of the texts `schemas.changes`. */
  what: ('type' | 'required' | 'optional' | 'nowRequired' | 'nowOptional' | 'rule' | 'label' | 'description')[];
  /** The field in the older version, if it is in both, and in the newer one. */
  was?: SchemaRow;
  is?: SchemaRow;
}

/** The labels of the field that moved and of the one that now follows it, null at the end; `many`: several moved. */
export type OrderChange = { moved: string; before: string | null } | 'many' | null;

/** Compare two versions by their fields. `order`: of those that are in both. */
export function compare(before: Shape, after: Shape) {
  const [old, next] = [rowsOf(before), rowsOf(after)];
  const was = new Map(old.map((row) => [row.key, row]));
  const is = new Map(next.map((row) => [row.key, row]));
  const fields: FieldChange[] = next.flatMap((row): FieldChange[] => {
    const { key, label } = row;
    const one = was.get(key);
    if (one === undefined) return [{ key, label, kind: 'added', what: [row.isRequired ? 'required' : 'optional'] }];
    const what = differences(one, row);
    return what.length === 0 ? [] : [{ key, label, kind: 'changed', what, was: one, is: row }];
  });
  const gone = old
    .filter(({ key }) => !is.has(key))
    .map(({ key, label }): FieldChange => ({ key, label, kind: 'removed', what: [] }));
  const common = (rows: readonly SchemaRow[]) =>
    rows.map(({ key }) => key).filter((key) => was.has(key) && is.has(key));
  const rest = ({ properties: _, required: __, ...schema }: Shape) =>
    JSON.stringify(setSecondReading(withExtension(schema, {}), null), Object.keys(schema).sort());
  const rules = JSON.stringify(objectOf(before[EXTENSION]).rules) !== JSON.stringify(objectOf(after[EXTENSION]).rules);
  return {
    fields: [...fields, ...gone],
    order: orderChange(common(old), common(next), (key) => is.get(key)!.label),
    rules: rules || rest(before) !== rest(after),
    reading: secondReading(before) === secondReading(after) ? undefined : secondReading(after),
  };
}

function orderChange(old: readonly string[], next: readonly string[], labelOf: (key: string) => string): OrderChange {
  const first = old.findIndex((key, index) => key !== next[index]);
  if (first < 0) return null;
  const without = (keys: readonly string[], key: string) => `${keys.filter((one) => one !== key)}`;
  // The first difference is where one field went, or where it came from.
  const moved = [next[first]!, old[first]!].find((key) => without(old, key) === without(next, key));
  if (moved === undefined) return 'many';
  const following = next[next.indexOf(moved) + 1];
  return { moved: labelOf(moved), before: following === undefined ? null : labelOf(following) };
}

function differences(one: SchemaRow, other: SchemaRow): FieldChange['what'] {
  const rest = (shape: Shape) =>
    JSON.stringify(changed(shape, { title: undefined, description: undefined, type: undefined }));
  return [
    ...(one.type !== other.type ? (['type'] as const) : []),
    ...(one.isRequired !== other.isRequired
      ? [other.isRequired ? ('nowRequired' as const) : ('nowOptional' as const)]
      : []),
    ...(one.type === other.type && rest(one.shape) !== rest(other.shape) ? (['rule'] as const) : []),
    ...(one.label !== other.label ? (['label'] as const) : []),
    ...(one.shape.description !== other.shape.description ? (['description'] as const) : []),
  ];
}
