/** Values of the quality page, which are stored as text: formatted by their type in the schema. */

import type { CountedValue } from '../api/types';
import { decimalPlaces, displayValue, parseEdited } from '../fields/fieldValue';
import { schemaPath } from '../fields/labels';
import type { SchemaField } from '../fields/schemaFields';

/** Return a function that formats a value. Numbers of one column have as many decimal places as the longest of `all`. */
export function valueFormat(
  { path, pattern }: CountedValue,
  schema: readonly SchemaField[],
  all: readonly CountedValue[],
): (text: string) => string {
  const field = schema.find((one) => one.path === schemaPath(path));
  if (field === undefined) return (text) => displayValue(text);
  const texts = all.filter((one) => one.pattern === pattern).flatMap(({ was, now }) => [was ?? '', now ?? '']);
  const decimals = Math.max(field.decimals, ...texts.map((text) => decimalPlaces(Number(text), '')));
  return (text) => displayValue(parseEdited(text, null, field.type || 'string'), { type: field.type, decimals });
}
