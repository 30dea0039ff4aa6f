/** The fields of a JSON Schema as a list, in its order. */

export interface SchemaField {
  /** `items[*].price` stands for every item. */
  path: string;
  /** The format if there is one (date), else the type (number). */
  type: string;
  title: string;
  description: string;
  /** Decimal places that `multipleOf` implies: 2 for 0.01. */
  decimals: number;
}

type Schema = Record<string, unknown>;

const MAX_DEPTH = 8;

export function schemaFields(schema: Schema, path = '', depth = 0): SchemaField[] {
  const properties = depth < MAX_DEPTH && isSchema(schema.properties) ? Object.entries(schema.properties) : [];
  return properties.flatMap(([name, one]) => {
    if (!isSchema(one)) return [];
    const at = path === '' ? name : `${path}.${name}`;
    const inner = isSchema(one.items)
      ? schemaFields(one.items, `${at}[*]`, depth + 1)
      : schemaFields(one, at, depth + 1);
    return [
      {
        path: at,
        type: typeOf(one),
        title: textOf(one.title),
        description: textOf(one.description),
        decimals: decimalsOf(one.multipleOf),
      },
      ...inner,
    ];
  });
}

/** Return a schema with other titles of its fields, by path. null: without the field. */
export function withTitles(schema: Schema, titles: ReadonlyMap<string, string | null>, path = ''): Schema {
  if (!isSchema(schema.properties)) return schema;
  const kept = Object.entries(schema.properties).flatMap(([name, one]) => {
    const at = path === '' ? name : `${path}.${name}`;
    const title = titles.get(at);
    if (title === null || !isSchema(one)) return title === null ? [] : [[name, one] as const];
    const inner = withTitles(one, titles, at);
    const isLeftEmpty = isSchema(inner.properties) && Object.keys(inner.properties).length === 0;
    return isLeftEmpty ? [] : [[name, title === undefined ? inner : { ...inner, title }] as const];
  });
  const properties = Object.fromEntries(kept);
  const required = Array.isArray(schema.required) && schema.required.filter((one) => one in properties);
  return { ...schema, properties, ...(required && { required }) };
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

function decimalsOf(multipleOf: unknown): number {
  if (typeof multipleOf !== 'number') return 0;
  return Math.min(4, /^0\.(\d+)$/.exec(String(multipleOf))?.[1]?.length ?? 0);
}

function typeOf({ type, format }: Schema): string {
  const named = Array.isArray(type)
    ? type.filter((one) => one !== 'null').join(' or ')
    : typeof type === 'string'
      ? type
      : '';
  return typeof format === 'string' ? format : named;
}

function isSchema(value: unknown): value is Schema {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
