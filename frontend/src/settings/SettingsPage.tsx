/** The settings of the current organisation: general, members, invitations, API keys, usage. */

import { useQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { meQuery } from '../session/config';
import { useOrganisation } from '../session/role';
import { t } from '../shared/i18n';
import { Loading } from '../components/ui/Loading';
import { ErrorNotice } from '../components/ui/Notice';
import { Invitations } from './Invitations';
import { Keys } from './Keys';
import { Members } from './Members';
import { OrganisationSettings } from './OrganisationSettings';
import styles from './Settings.module.css';
import { UsageTable } from './UsageTable';

export function SettingsPage() {
  const me = useQuery(meQuery);
  const organisation = useOrganisation();
  if (me.isError) return <ErrorNotice error={me.error} onRetry={() => void me.refetch()} />;
  if (organisation === undefined) return <Loading />;
  const isOwner = organisation.role === 'owner';
  return (
    <div className={styles.page}>
      <h1>{t('areas.settings')}</h1>
      <Section id="organisation">
        <OrganisationSettings organisation={organisation} isOwner={isOwner} />
      </Section>
      <Section id="members">
        <Members organisation={organisation} isOwner={isOwner} />
      </Section>
      {isOwner && (
        <Section id="invitations">
          <Invitations organisation={organisation} />
        </Section>
      )}
      <Section id="keys">
        <Keys organisation={organisation} />
      </Section>
      <Section id="usage">
        <UsageTable organisation={organisation} />
      </Section>
    </div>
  );
}

function Section({
  id,
  children,
}: {
  id: 'organisation' | 'members' | 'invitations' | 'keys' | 'usage';
  children: ReactNode;
}) {
  return (
    <section className={styles.section} aria-labelledby={`${id}-title`}>
      <h2 id={`${id}-title`}>{t(`settings.sections.${id}`)}</h2>
      {children}
    </section>
  );
}
