import type { DocumentDetails } from '../api/types';
import en from '../locales/en.json';
import { t } from '../shared/i18n';

type ReadingWarning = DocumentDetails['warnings'][number];

/** Return the text of a warning about how a document was read; an unknown code's as the service wrote it. */
export function warningText({ code, page, count, message }: ReadingWarning): string {
  const known = Object.hasOwn(en.warnings, code) || Object.hasOwn(en.warnings, `${code}_one`);
  if (!known) return message;
  const text = t(`warnings.${code}`, { count });
  return page === null ? text : t('document.warningOnPage', { page, message: text });
}
