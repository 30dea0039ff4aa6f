/** What the inbox asks, and why an answer may be right, in words. */

import { displayValue } from '../document/fields/fieldValue';
import { pathLabel } from '../document/fields/labels';
import { toolName } from '../runs/toolText';
import { codeText } from '../shared/codeText';
import { visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import type { CandidateAnswer, InboxItem } from './inboxQueries';

const FIELD_TOOLS = new Set([
  'extract_fields',
  'update_field',
  'remove_field',
  'update_extraction_field',
  'extract_row',
]);

export function isFieldTool(tool: string | null): boolean {
  return tool !== null && FIELD_TOOLS.has(tool);
}

export function itemTitle(item: InboxItem): string {
  switch (item.kind) {
    case 'approval':
      return isFieldTool(item.tool)
        ? t('inbox.toApprove', { count: item.changes ?? 0 })
        : t('inbox.callToApprove', { tool: toolName(item.tool ?? '') });
    case 'suggestion':
      return t('inbox.newTable', { name: visibleText(item.table ?? '') });
    case 'failed':
      return item.error_code === 'password'
        ? t('inbox.password')
        : codeText('readingErrors', item.error_code, t('inbox.failed'));
    default:
      return questionTitle(item);
  }
}

function questionTitle({ path, reason, text }: InboxItem): string {
  if (path === null) return t('inbox.incomplete');
  const about = { field: pathLabel(path), value: displayValue(text ?? '') };
  switch (reason) {
    case 'missing':
    case 'ambiguous_date':
    case 'ambiguous_number':
    case 'ambiguous_currency':
    case 'breaks_schema':
    case 'breaks_rule':
    case 'proposal':
    case 'not_found':
      return t(`inbox.questions.${reason}`, about);
    default:
      return t('inbox.questions.low_confidence', about);
  }
}

export function answerReason({ code, data, page }: CandidateAnswer): string {
  const shown = Object.fromEntries(Object.entries(data).map(([name, value]) => [name, visibleText(value)]));
  if ((code === 'near' || code === 'label') && (shown.label ?? '') === '') return t('common.pageFirst', { page });
  return t(`inbox.answers.${code}`, { ...shown, of: pathLabel(data.of ?? '') });
}
