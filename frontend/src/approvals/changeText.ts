/** What a call would change, in the person's language. */

import { displayValue } from '../fields/fieldValue';
import { pathLabel } from '../fields/labels';
import en from '../locales/en.json';
import { visibleText } from '../shared/format';
import { t } from '../shared/i18n';

const FIELD_TOOLS = new Set([
  'extract_fields',
  'update_field',
  'remove_field',
  'update_extraction_field',
  'define_columns',
]);

/** Return the label of a change: of a field, or of a property of a schema, prompt, tag, document or extraction. */
export function changeLabel(tool: string, path: string): string {
  const key = path.replaceAll(' ', '_');
  const isProperty = Object.hasOwn(en.approvals.paths, key) && (path === 'document_type' || !FIELD_TOOLS.has(tool));
  return isProperty ? t(`approvals.paths.${key as keyof typeof en.approvals.paths}`) : pathLabel(path);
}

/** Return a value of a change. `quote`: the value as printed. */
export function changeValue(tool: string, path: string, value: unknown, quote?: string | null): string {
  if (path === 'status' && !FIELD_TOOLS.has(tool) && isStatus(value)) return t(`document.extractionStatuses.${value}`);
  if (tool === 'define_columns' && typeof value === 'string') return columnText(value);
  return Array.isArray(value) && value.every((one) => typeof one === 'string')
    ? value.join(', ')
    : displayValue(value, undefined, quote);
}

function isStatus(value: unknown): value is keyof typeof en.document.extractionStatuses {
  return typeof value === 'string' && Object.hasOwn(en.document.extractionStatuses, value);
}

/** Return "Number: the net amount" for `number: the net amount`. */
function columnText(described: string): string {
  const [, type, description = ''] = /^([a-z]+)(:.*)?$/s.exec(described) ?? [];
  return type !== undefined && Object.hasOwn(en.stacks.types, type)
    ? `${t(`stacks.types.${type as keyof typeof en.stacks.types}`)}${visibleText(description)}`
    : visibleText(described);
}
