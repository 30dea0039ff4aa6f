/** The organisation that the person works in, and their role there. */

import { useQuery } from '@tanstack/react-query';
import type { Organisation } from '../api/types';
import { visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import { meQuery } from './config';
import { useSession } from './session';

/** undefined: not loaded yet, or the person was removed from it. */
export function useOrganisation(): Organisation | undefined {
  const { organisationId } = useSession();
  const me = useQuery(meQuery);
  return me.data?.organisations.find((one) => (organisationId === null ? one.is_personal : one.id === organisationId));
}

/** Return an organisation's name; the personal one's in the person's language, unless it was renamed. */
export function organisationName({ name, is_personal: isPersonal }: Organisation): string {
  return isPersonal && name === 'Personal' ? t('account.personal') : visibleText(name);
}

export function useCanWrite(): boolean {
  return useOrganisation()?.role !== 'viewer';
}
