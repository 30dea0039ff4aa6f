/** The fields that a JSON Schema names, for people: a row each, in its order. */

export interface SchemaField {
  /** `items[*].price` is said of every item. */
  path: string;
  type: string;
  description: string;
}

type Schema = Record<string, unknown>;

const DEEPEST = 8;

export function schemaFields(schema: Schema, path = '', depth = 0): SchemaField[] {
  const properties = depth < DEEPEST && isSchema(schema.properties) ? Object.entries(schema.properties) : [];
  return properties.flatMap(([name, one]) => {
    if (!isSchema(one)) return [];
    const at = path === '' ? name : `${path}.${name}`;
    const inner = isSchema(one.items) ? schemaFields(one.items, `${at}[*]`, depth + 1) : schemaFields(one, at, depth + 1);
    return [{ path: at, type: typeOf(one), description: typeof one.description === 'string' ? one.description : '' }, ...inner];
  });
}

function typeOf({ type, format }: Schema): string {
  const named = Array.isArray(type) ? type.filter((one) => one !== 'null').join(' or ') : typeof type === 'string' ? type : '';
  return typeof format === 'string' ? format : named;
}

function isSchema(value: unknown): value is Schema {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
