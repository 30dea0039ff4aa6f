/** A notice that a list is longer than what is shown. */

import { t } from '../shared/i18n';
import { LIMIT } from './settingsQueries';

export function ListLimitNotice({ list }: { list: { next: string | null } | undefined }) {
  return list?.next ? <p className="muted">{t('settings.latest', { count: LIMIT })}</p> : null;
}
