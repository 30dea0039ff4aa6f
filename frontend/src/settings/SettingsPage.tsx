/** The pages of the current organisation: settings with usage, members with invitations, API keys. */

import { useQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import type { Organisation } from '../api/types';
import { meQuery } from '../session/config';
import { useOrganisation } from '../session/role';
import { t } from '../shared/i18n';
import { Card } from '../components/ui/Card';
import { Loading } from '../components/ui/Loading';
import { ErrorNotice } from '../components/ui/Notice';
import { Invitations } from './Invitations';
import { Keys } from './Keys';
import { Members } from './Members';
import { OrganisationSettings } from './OrganisationSettings';
import { Sources } from './Sources';
import { Spending } from './Spending';
import { StorageUse } from './StorageUse';
import { UploadRules } from './UploadRules';
import { Webhooks } from './Webhooks';

type PageProps = { organisation: Organisation; isOwner: boolean };

export function SettingsPage() {
  return (
    <OrganisationPage title={t('areas.settings')}>
      {({ organisation, isOwner }) => (
        <>
          <Section id="organisation">
            <OrganisationSettings organisation={organisation} isOwner={isOwner} />
          </Section>
          <Section id="rules">
            <UploadRules organisation={organisation} isOwner={isOwner} />
          </Section>
          <Section id="usage">
            <StorageUse />
            <Spending />
          </Section>
          {isOwner && (
            <>
              <Section id="sources">
                <Sources />
              </Section>
              <Section id="webhooks">
                <Webhooks />
              </Section>
            </>
          )}
        </>
      )}
    </OrganisationPage>
  );
}

export function MembersPage() {
  return (
    <OrganisationPage title={t('areas.members')}>
      {({ organisation, isOwner }) => (
        <>
          <Section id="members">
            <Members organisation={organisation} isOwner={isOwner} />
          </Section>
          {isOwner && (
            <Section id="invitations">
              <Invitations organisation={organisation} />
            </Section>
          )}
        </>
      )}
    </OrganisationPage>
  );
}

export function KeysPage() {
  return (
    <OrganisationPage title={t('areas.keys')}>
      {({ organisation }) => (
        <Section id="keys">
          <Keys organisation={organisation} />
        </Section>
      )}
    </OrganisationPage>
  );
}

function OrganisationPage({ title, children }: { title: string; children: (props: PageProps) => ReactNode }) {
  const me = useQuery(meQuery);
  const organisation = useOrganisation();
  if (me.isError) return <ErrorNotice error={me.error} onRetry={() => void me.refetch()} />;
  if (organisation === undefined) return <Loading />;
  const isOwner = organisation.role === 'owner';
  return (
    <div className="min-h-full bg-background">
      <div className="flex h-12 items-center border-b border-border px-6 max-sm:px-4">
        <h1 className="text-lg font-semibold">{title}</h1>
      </div>
      <div className="grid max-w-4xl gap-4 p-6 max-sm:p-3">{children({ organisation, isOwner })}</div>
    </div>
  );
}

function Section({
  id,
  children,
}: {
  id: 'organisation' | 'members' | 'invitations' | 'keys' | 'usage' | 'rules' | 'sources' | 'webhooks';
  children: ReactNode;
}) {
  return (
    <Card title={t(`settings.sections.${id}`)}>
      <div className="grid gap-4">{children}</div>
    </Card>
  );
}
