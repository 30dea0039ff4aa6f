/** The settings of the organisation that somebody acts in: what holds in it, its people, its keys, what it has used. */

import { useQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { meQuery } from '../session/config';
import { useSession } from '../session/session';
import { Loading } from '../shared/Loading';
import { ErrorNotice } from '../shared/Notice';
import { Invitations } from './Invitations';
import { Keys } from './Keys';
import { Members } from './Members';
import { OrganisationSettings } from './OrganisationSettings';
import styles from './Settings.module.css';
import { UsageTable } from './UsageTable';

export function SettingsPage() {
  const { organisationId } = useSession();
  const me = useQuery(meQuery);
  const organisation = me.data?.organisations.find((one) => (organisationId === null ? one.is_personal : one.id === organisationId));
  if (me.isError) return <ErrorNotice error={me.error} onRetry={() => void me.refetch()} />;
  if (organisation === undefined) return <Loading />;
  const isOwner = organisation.role === 'owner';
  return (
    <div className={styles.page}>
      <h1>Settings</h1>
      <Section id="organisation" title="Organisation">
        <OrganisationSettings organisation={organisation} isOwner={isOwner} />
      </Section>
      <Section id="members" title="Members">
        <Members organisation={organisation} isOwner={isOwner} />
      </Section>
      {isOwner && (
        <Section id="invitations" title="Invitations">
          <Invitations organisation={organisation} />
        </Section>
      )}
      <Section id="keys" title="Keys for machines">
        <Keys organisation={organisation} />
      </Section>
      <Section id="usage" title="Usage">
        <UsageTable organisation={organisation} />
      </Section>
    </div>
  );
}

function Section({ id, title, children }: { id: string; title: string; children: ReactNode }) {
  return (
    <section className={styles.section} aria-labelledby={`${id}-title`}>
      <h2 id={`${id}-title`}>{title}</h2>
      {children}
    </section>
  );
}
