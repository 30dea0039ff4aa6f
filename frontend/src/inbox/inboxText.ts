/** What the inbox asks, in words. */

import { isFieldTool } from '../approvals/proposedValues';
import { displayValue } from '../fields/fieldValue';
import { pathLabel } from '../fields/labels';
import { toolName } from '../run/toolText';
import { codeText } from '../shared/codeText';
import { visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import type { InboxItem } from './inboxQueries';

export function itemTitle(item: InboxItem): string {
  switch (item.kind) {
    case 'approval':
      return isFieldTool(item.tool)
        ? t('inbox.toApprove', { count: item.changes ?? 0 })
        : t('inbox.callToApprove', { tool: toolName(item.tool ?? '') });
    case 'suggestion':
      return (item.alike?.length ?? 1) > 1
        ? t('inbox.alike', { count: item.alike!.length })
        : t('inbox.newTable', { name: visibleText(item.table ?? '') });
    case 'failed':
      return item.error_code === 'password'
        ? t('inbox.password')
        : // What to do about it is said beside the list.
          codeText('readingErrors', item.error_code, t('inbox.failed')).split(/[.:] /)[0]!;
    default:
      return questionTitle(item);
  }
}

/** The second line: what it is about. */
export function itemDetails({ kind, filename, table, alike, changes }: InboxItem): string {
  const name = visibleText(table ?? '');
  if (kind !== 'suggestion') return [visibleText(filename ?? ''), name].filter((one) => one !== '').join(' · ');
  const columns = t('inbox.columns', { count: changes ?? 0 });
  return (alike?.length ?? 1) > 1
    ? `${t('inbox.newTable', { name })}, ${columns}`
    : `${columns} · ${visibleText(filename ?? '')}`;
}

function questionTitle({ path, reason, text }: InboxItem): string {
  if (path === null) return t('inbox.incomplete');
  const isAmount = text !== null && /^-?\d+\.\d+$/.test(text);
  const about = { field: pathLabel(path), value: displayValue(isAmount ? Number(text) : (text ?? '')) };
  switch (reason) {
    case 'missing':
    case 'ambiguous_date':
    case 'ambiguous_number':
    case 'ambiguous_currency':
    case 'scale':
    case 'subtotal':
    case 'duplicate_row':
    case 'borrowed_label':
    case 'balance':
    case 'numbering':
    case 'item_count':
    case 'pages_missing':
    case 'breaks_schema':
    case 'breaks_rule':
    case 'proposal':
    case 'not_found':
      return t(`inbox.questions.${reason}`, about);
    case 'second_reading':
      if (text === null) return t('inbox.questions.second_reading_nothing', about);
      return t(/^[[{]/.test(text) ? 'inbox.questions.second_reading_rows' : 'inbox.questions.second_reading', about);
    default:
      return t('inbox.questions.low_confidence', about);
  }
}
