/** The answers to the question what the value of a field is, and why each may be right, in words. */

import { queryOptions, useQuery } from '@tanstack/react-query';
import { useMemo } from 'react';
import { api } from '../api/client';
import type { components } from '../api/description';
import type { Box, Extraction } from '../api/types';
import { visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import { type FieldRow, type Mark, placeOf } from '../fields/fieldTree';
import { displayValue } from '../fields/fieldValue';
import { pathLabel } from '../fields/labels';
import { proposalOf } from '../fields/proposals';

export type CandidateAnswer = components['schemas']['CandidateAnswer'];

const NONE: readonly CandidateAnswer[] = [];
const KEEP = { code: 'current', data: {}, page: null, boxes: [] } as const;
/** To the question about a list or object that an agent proposes. */
const WHOLE = [
  { ...KEEP, code: 'proposed', value: null },
  { ...KEEP, value: null },
] as unknown as readonly CandidateAnswer[];

export const answersQuery = (extractionId: string, version: number, path: string) =>
  queryOptions({
    queryKey: ['answers', extractionId, version, path],
    queryFn: async ({ signal }) => {
      const params = { path: { extraction_id: extractionId }, query: { path } };
      return (await api.get('/api/extractions/{extraction_id}/answers', { ...params, signal }))
        .items as CandidateAnswer[];
    },
    staleTime: Infinity,
  });

/** Return the answers to the question about a field: none while they are loading. */
export function useAnswers(extraction: Extraction | undefined, field: FieldRow | undefined) {
  const leaf = field?.kind === 'leaf' ? field : undefined;
  const proposal = field?.reason === 'proposal' ? proposalOf(extraction?.proposals ?? [], field.path) : undefined;
  const isWhole = proposal !== undefined && proposal.path !== field?.path;
  // A list whose rows a second reading has otherwise has answers, too.
  const asked = leaf ?? (field?.reason === 'second_reading' ? field : undefined);
  const found = useQuery({
    ...answersQuery(extraction?.id ?? '', extraction?.version ?? 0, asked?.path ?? ''),
    enabled: extraction !== undefined && asked !== undefined && !isWhole,
    // When another field is saved, the answers stay, and so does the focus.
    placeholderData: (before, query) =>
      query?.queryKey[1] === extraction?.id && query?.queryKey[3] === asked?.path ? before : undefined,
  });
  const current = proposal === undefined ? leaf?.value : undefined;
  const { isLoading } = found;
  const answers = useMemo(
    () => (isWhole ? WHOLE : isLoading ? NONE : withCurrent(found.data ?? NONE, current)),
    [isWhole, isLoading, found.data, current],
  );
  return { answers, isLoading };
}

/** A person can always keep what is there. */
function withCurrent(answers: readonly CandidateAnswer[], value: unknown): readonly CandidateAnswer[] {
  if (value === undefined || value === null || value === '' || answers.some((one) => one.value === value))
    return answers;
  return [...answers, { ...KEEP, value, boxes: [] } as CandidateAnswer];
}

export function answerText(answer: CandidateAnswer, field: FieldRow): string {
  if (answer.data.removed !== undefined) return t('approvals.removed');
  if (answer.data.rows !== undefined) return t('inbox.answers.rows', { count: Number(answer.data.rows) });
  if (answer.value === null && answer.code === 'second_reading') return t('fields.nothing');
  if (answer.value === null) return t(answer.code === 'proposed' ? 'common.accept' : 'common.reject');
  const leaf = field.kind === 'leaf' ? field : undefined;
  return displayValue(answer.value, leaf?.field, answer.data.quote ?? leaf?.evidence?.quote) || t('fields.nothing');
}

/** `text`: the value as shown. What is printed like it needs no words. */
export function answerReason({ code, data, page }: CandidateAnswer, text: string): string {
  const shown = Object.fromEntries(Object.entries(data).map(([name, value]) => [name, visibleText(value)]));
  const isPlain = code === 'printed' ? shown.quote === text : code === 'near' || code === 'label';
  if (isPlain && page !== null && (shown.label ?? '') === '') return t('common.pageFirst', { page });
  const reason = t(`inbox.answers.${code}`, { ...shown, of: pathLabel(data.of ?? '') });
  return shown.only === undefined ? reason : t('inbox.answers.only', { reason, rows: shown.only });
}

/** Return the boxes of the fields, and those of the answers with their numbers. */
export function withAnswers(
  marks: ReadonlyMap<number, readonly Mark[]>,
  answers: readonly CandidateAnswer[],
): ReadonlyMap<number, readonly Mark[]> {
  const all = new Map([...marks].map(([page, list]) => [page, [...list]]));
  for (const [index, { page, boxes }] of answers.entries()) {
    if (page === null) continue;
    const list = all.get(page) ?? [];
    // Two readings of the same words are one box: that of the first.
    for (const box of boxes.filter((one) => !list.some(({ number, box: of }) => number && String(of) === String(one))))
      list.push({ path: answerMark(index), box: box as Box, status: 'unclear', number: index + 1 });
    all.set(page, list);
  }
  return all;
}

/** Return the name of the box of an answer. No path of a field starts with a space. */
export function answerMark(index: number): string {
  return ` answer ${index + 1}`;
}

/** Return where to look: the box of the first answer that has one, else that of the field. */
export function questionPlace(
  answers: readonly CandidateAnswer[],
  field: FieldRow | undefined,
  rows: readonly FieldRow[],
) {
  const at = answers.findIndex((one) => one.page !== null);
  const place = placeOf(rows, field);
  return {
    page: answers[at]?.page ?? place?.page ?? 1,
    box: (answers[at]?.boxes[0] ?? place?.box) as Box | undefined,
    chosen: at < 0 || answers[at]?.code === 'near' ? (field?.path ?? null) : answerMark(at),
  };
}
