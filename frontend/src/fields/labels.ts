/** Names of fields for people: the schema's titles, else the keys in plain words. */

import en from '../locales/en.json';
import { visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import type { SchemaField } from './schemaFields';
import { pathName, pathSteps } from './paths';

const ACRONYMS = new Set([
  'bic',
  'ean',
  'ein',
  'gst',
  'gtin',
  'iban',
  'id',
  'po',
  'sku',
  'tin',
  'uid',
  'upc',
  'url',
  'vat',
]);
const KEY = /^[A-Za-z][A-Za-z0-9]*(?:[_-][A-Za-z0-9]+)*$/;

/** Return a key in plain words: "invoice_number" and "invoiceNumber" as "Invoice number". Other texts stay as they are. */
export function keyLabel(key: string): string {
  if (!KEY.test(key)) return visibleText(key);
  const words = key.replace(/([a-z0-9])([A-Z])/g, '$1_$2').split(/[_-]/);
  const label = words
    .map((word) =>
      ACRONYMS.has(word.toLowerCase()) ? word.toUpperCase() : /^[A-Z][a-z]/.test(word) ? word.toLowerCase() : word,
    )
    .join(' ');
  return label.charAt(0).toUpperCase() + label.slice(1);
}

/** Return the label of one field: the last step of its path. */
export function fieldLabel(path: string, schema: readonly SchemaField[] = []): string {
  const steps = pathSteps(path) ?? [path];
  const last = steps.at(-1);
  if (typeof last === 'number') return `${last + 1}`;
  const title = schema.find((one) => one.path === schemaPath(path))?.title;
  return title ? visibleText(title) : keyLabel(last ?? path);
}

/** Return the label of a field with the groups that it is in: "Items › 2 › Unit price". */
export function pathLabel(path: string, schema: readonly SchemaField[] = []): string {
  const steps = pathSteps(path);
  if (steps === null || steps.length === 0) return visibleText(path);
  return steps.map((_, index) => fieldLabel(pathName(steps.slice(0, index + 1)), schema)).join(' › ');
}

/** Return a field's type in plain words: "date", "text". */
export function typeLabel(type: string): string {
  return type
    .split(' or ')
    .map((one) =>
      Object.hasOwn(en.fieldTypes, one) ? t(`fieldTypes.${one as keyof typeof en.fieldTypes}`) : visibleText(one),
    )
    .join(' / ');
}

/** Return a path as the schema names it: `items[*].price` for `items[2].price`. */
export function schemaPath(path: string): string {
  return path.replace(/\[\d*\]/g, '[*]');
}
