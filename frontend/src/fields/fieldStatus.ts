/** The status of a field, as the service decided it: its colour and icon, and in words. */

import type { Evidence, FieldStatusOf, Reason } from '../api/types';
import { formatPercent } from '../shared/format';
import { t } from '../shared/i18n';
import type { SchemaField } from './schemaFields';
import type { Leaf } from './fieldTree';
import { pathLabel } from './labels';

/** The statuses of the service, and of values that are not stored: `preview` (the model is still writing it), `waiting`
 * (it needs approval) and `saving` (a person's, on its way). */
export type FieldStatus = FieldStatusOf['status'] | 'preview' | 'waiting' | 'saving';

export interface Status {
  status: FieldStatus;
  reason: Reason | null;
}

/** Of fields that a person has to look at. */
export const NEEDS_PERSON = ['needs_review', 'unclear'] as const satisfies readonly FieldStatus[];

export function needsPerson({ status }: { status: FieldStatus | undefined }): boolean {
  return (NEEDS_PERSON as readonly (FieldStatus | undefined)[]).includes(status);
}

/** In a word or two: of a field that needs review why, without the doubt of an unclear one. */
export function statusLabel({ status, reason }: Status): string {
  // They look alike: a person who knows that a question is an audit does not look.
  if (status === 'unclear' && (reason === 'audit' || reason === 'below_threshold' || reason === 'often_corrected'))
    return t('fields.toCompare');
  switch (status === 'needs_review' ? reason : null) {
    case 'missing':
    case 'breaks_schema':
    case 'breaks_rule':
    case 'proposal':
    case 'not_found':
      return t(`fields.reasons.${reason as 'missing'}`);
    default:
      return status === 'blank' && reason === 'person' ? t('fields.notInDocument') : t(`fields.statuses.${status}`);
  }
}

/** What a reason is about: the rows of a list, a field without a value, or a value. */
export function subjectOf(field: { kind: 'leaf'; value: unknown } | { kind: 'group' }): 'rows' | 'nothing' | 'value' {
  if (field.kind === 'group') return 'rows';
  return field.value === undefined || field.value === null || field.value === '' ? 'nothing' : 'value';
}

/** With the reason in words. Only `evidence` says whether the agent's doubt is the reason of a low confidence. */
export function statusText(
  { status, reason, of = 'value' }: Status & { of?: ReturnType<typeof subjectOf> },
  evidence?: Pick<Evidence, 'claim'>,
  confidence?: number | null,
): string {
  if (reason === null || (status === 'blank' && reason === 'person')) return statusLabel({ status, reason });
  if (status === 'accepted') return t('fields.accepted', { reason: t(`fields.why.${reason}`) });
  if (reason === 'second_reading' && of !== 'value') return t(`fields.why.second_reading_${of}`);
  const claimed = evidence?.claim?.confidence;
  if (reason !== 'low_confidence' || evidence === undefined || confidence == null) return t(`fields.why.${reason}`);
  return t(claimed != null && claimed <= confidence ? 'fields.why.doubted' : 'fields.why.illegible');
}

/** Describe where and how a value was found: "Page 1 · exact match · 100%". Once a person has decided, without a score. */
export function describeEvidence({
  evidence,
  confidence,
  status,
  value,
  lock,
}: Pick<Leaf, 'evidence' | 'confidence' | 'status' | 'value' | 'lock'>): string {
  if (status === 'preview') return t('fields.evidence.writing');
  if (status === 'saving') return t('fields.statuses.saving');
  if (value === undefined) return t('fields.evidence.missing');
  if (status === 'waiting' && evidence === undefined) return t('fields.evidence.waiting');
  if (evidence === undefined) return t('fields.evidence.notChecked');
  if (evidence.state === 'blank') return t('fields.evidence.blank');
  if (evidence.state === 'message') return t('fields.evidence.message');
  if (evidence.state === 'not_found') return t('fields.evidence.notFound');
  const parts = [t('common.page', { page: evidence.page })];
  if (evidence.match !== null) parts.push(t(`fields.evidence.matches.${evidence.match}`));
  if (confidence !== undefined && lock === undefined) parts.push(formatPercent(confidence));
  if (lock === undefined) parts.push(...(evidence.doubts ?? []).map((doubt) => t(`fields.why.${doubt}`)));
  parts.push(...(evidence.supports ?? []).map((one) => t(`fields.evidence.supports.${one}`)));
  return parts.join(' · ');
}

/** Whether a person can say that the document has no such value. */
export function canBeBlank({ status, reason }: Status, value: unknown): boolean {
  if (['preview', 'waiting', 'saving', 'blank'].includes(status)) return false;
  return value === undefined || value === null || value === '' || reason === 'not_found';
}

/** Return lines about fields that a person has to look at, such as "Total: Missing (10)": one for each field and reason. */
export function openFields(fields: readonly (Status & { label: string })[]): string[] {
  const counts = new Map<string, number>();
  for (const one of fields.filter(needsPerson)) {
    const line = `${one.label}: ${statusLabel(one)}`;
    counts.set(line, (counts.get(line) ?? 0) + 1);
  }
  return [...counts]
    .sort(([, a], [, b]) => b - a)
    .map(([line, count]) => (count === 1 ? line : t('fields.openCount', { line, count })));
}

/** Return the label of a field in all items of its lists: "Items › Price". */
export function commonLabel(path: string, schema: readonly SchemaField[]): string {
  return path === '' ? t('violations.wholeDocument') : pathLabel(path.replace(/\[\d*\]/g, ''), schema);
}
