/** The texts of an answer: the agent's words, and in the person's language what the service adds to them. */

import type { TypedAnswer } from '../api/types';
import { pathLabel } from '../fields/labels';
import en from '../locales/en.json';
import { visibleText } from '../shared/format';
import { t } from '../shared/i18n';

type Coverage = TypedAnswer['coverage'][number];

/** Return the model's answer as Markdown. */
export function answerText(answer: TypedAnswer): string {
  if (answer.kind !== 'summary') return answer.answer;
  return [answer.summary, ...answer.key_points.map((point) => `- ${point}`)].join('\n');
}

/** Return why an answer is not the agent's own. */
export function fallbackText({ fallback, sources }: TypedAnswer): string {
  const code = fallback?.code ?? '';
  const reason = isReason(code) ? t(`answer.reasons.${code}`) : isRunError(code) ? t(`runErrors.${code}`) : '';
  if (fallback?.by_model === true) return t('answer.lastAnswer', { reason });
  return t(sources.length > 0 ? 'answer.bestPassages' : 'answer.noPassages', { reason });
}

/** Return the most documents that a figure leaves out because a person has to review them first. */
export function toReview({ coverage }: TypedAnswer): number {
  return Math.max(0, ...coverage.map((one) => one.to_review ?? 0));
}

/** Return what an answer covers and what it leaves out besides, one sentence each. */
export function coverageTexts(answer: TypedAnswer): string[] {
  const names = (list: readonly string[]) => list.map(visibleText).join('; ');
  const duplicates = [...new Set(answer.coverage.flatMap((one) => one.duplicates ?? []))];
  const identical = answer.identical_files ?? [];
  const searched = answer.kind === 'answer' ? answer.searched : [];
  return [
    ...new Set(answer.coverage.flatMap(coverageOf)),
    ...(duplicates.length > 0 ? [t('answer.duplicates', { names: names(duplicates) })] : []),
    ...(identical.length > 0 ? [t('answer.identical', { names: names(identical) })] : []),
    ...(searched.length > 0 ? [t('answer.searched', { queries: names(searched) })] : []),
    ...(answer.fallback?.not_indexed ? [t('answer.notIndexed', { count: answer.fallback.not_indexed })] : []),
  ];
}

function coverageOf({
  fields,
  document_type: type = null,
  documents,
  with_field: have,
  without_fields: without,
  other_types: others,
  copies,
}: Coverage): string[] {
  const ofType = type === null ? {} : { type: visibleText(type) };
  const counted = fields.map((one) =>
    t(type === null ? 'answer.field' : 'answer.fieldOfType', {
      ...ofType,
      field: pathLabel(one.path),
      have: one.have,
      documents: one.documents,
    }),
  );
  return [
    counted.length > 0
      ? t('answer.fields', { fields: counted.join('; ') })
      : t(type === null ? 'answer.documents' : 'answer.documentsOfType', { ...ofType, have, documents }),
    ...(without > 0 ? [t('answer.withoutFields', { count: without })] : []),
    ...(others > 0 ? [t('answer.otherTypes', { count: others })] : []),
    ...(copies > 0 ? [t('answer.copies', { count: copies })] : []),
  ];
}

function isReason(code: string): code is keyof typeof en.answer.reasons {
  return Object.hasOwn(en.answer.reasons, code);
}

function isRunError(code: string): code is keyof typeof en.runErrors {
  return Object.hasOwn(en.runErrors, code);
}
