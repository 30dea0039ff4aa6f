/** The status of a field's value: its colour and icon, and its evidence in a sentence. */

import type { Tone } from '../../shared/Badge';
import { formatPercent } from '../../shared/format';
import { t } from '../../shared/i18n';
import type { IconName } from '../../shared/Icon';
import type { FieldStatus, Leaf } from './fieldTree';

export const FIELD_STATUSES: Record<FieldStatus, { tone: Tone; icon: IconName }> = {
  waiting: { tone: 'unsure', icon: 'question' },
  preview: { tone: 'plain', icon: 'spark' },
  missing: { tone: 'bad', icon: 'warning' },
  broken: { tone: 'bad', icon: 'warning' },
  proposal: { tone: 'unsure', icon: 'question' },
  not_found: { tone: 'bad', icon: 'cross' },
  unsure: { tone: 'unsure', icon: 'question' },
  blank: { tone: 'plain', icon: 'minus' },
  locked: { tone: 'good', icon: 'lock' },
  found: { tone: 'good', icon: 'check' },
  stated: { tone: 'plain', icon: 'minus' },
};

/** Describe where and how a value was found: "Page 1 · exact match · 100%". */
export function describeEvidence({ evidence, confidence, status }: Pick<Leaf, 'evidence' | 'confidence' | 'status'>): string {
  if (status === 'preview') return t('fields.evidence.writing');
  if (status === 'missing') return t('fields.evidence.missing');
  if (status === 'waiting' && evidence === undefined) return t('fields.evidence.waiting');
  if (evidence === undefined) return t('fields.evidence.notChecked');
  if (evidence.state === 'blank') return t('fields.evidence.blank');
  if (evidence.state === 'message') return t('fields.evidence.message');
  if (evidence.state === 'not_found') return t('fields.evidence.notFound');
  const parts = [t('common.page', { page: evidence.page })];
  if (evidence.match !== null) parts.push(t(`fields.evidence.matches.${evidence.match}`));
  if (confidence !== undefined) parts.push(formatPercent(confidence));
  return parts.join(' · ');
}
