/** Questions from the organisation's own fields. They need no model. */

import type { KnownField } from '../api/types';
import { pathLabel } from '../fields/labels';
import { language, t } from '../shared/i18n';

const MAX = 4;
/** A field whose values repeat so often on average makes groups. */
const MIN_REPEATS = 1.5;

/** Return questions about the fields that most documents have, except those that were asked. */
export function suggestedQuestions(fields: readonly KnownField[], asked: readonly string[] = []): string[] {
  const plain = fields.filter(({ path }) => !path.includes('[')).toSorted((a, b) => b.documents - a.documents);
  const of = (kind: KnownField['kinds'][number]) =>
    plain.filter((one) => one.kinds.length === 1 && one.kinds[0] === kind);
  // The amount that a document is about is its total, else the one with the most different values.
  const isTotal = ({ path }: KnownField) => Number(/(^|[._])total$/.test(path));
  const [amount] = of('number').toSorted(
    (a, b) => isTotal(b) - isTotal(a) || b.distinct_values - a.distinct_values || b.documents - a.documents,
  );
  const [day] = of('day');
  const [group, other] = of('text').filter(
    ({ path, documents, distinct_values: values }) =>
      values > 1 && documents >= values * MIN_REPEATS && !/currency/i.test(path),
  );
  if (amount === undefined) return [];
  const words = ({ path }: KnownField) => pathLabel(path).split(' › ').map(lowerFirst).join(' ');
  const field = words(amount);
  const questions = [
    ...(group === undefined ? [] : [t('ask.suggest.sumBy', { field, group: words(group) })]),
    ...(day === undefined ? [] : [t('ask.suggest.sumByMonth', { field, day: words(day) })]),
    ...(other === undefined ? [] : [t('ask.suggest.averageBy', { field, group: words(other) })]),
    t('ask.suggest.highest', { field }),
    t('ask.suggest.sum', { field }),
  ];
  return questions.filter((one) => !asked.includes(one)).slice(0, MAX);
}

/** "Net amount" inside a sentence is "net amount"; "VAT" stays, and so does each noun in German. */
function lowerFirst(label: string): string {
  return language() === 'de' || /^.[A-Z]/.test(label) ? label : label.charAt(0).toLocaleLowerCase() + label.slice(1);
}
