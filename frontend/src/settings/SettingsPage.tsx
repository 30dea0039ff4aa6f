/** The pages of the current organisation: settings in parts, members with invitations, API keys. */

import { useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import type { Organisation } from '../api/types';
import { meQuery } from '../session/config';
import { useOrganisation } from '../session/role';
import { t } from '../shared/i18n';
import { Card } from '../components/ui/Card';
import { Loading } from '../components/ui/Loading';
import { ErrorNotice } from '../components/ui/Notice';
import { Tabs } from '../components/ui/Tabs';
import { useUpdateSearch } from '../shared/useUpdateSearch';
import { ApprovalSettings } from './ApprovalSettings';
import { Invitations, Invite } from './Invitations';
import { CreateKey, Keys } from './Keys';
import { Members } from './Members';
import { OrganisationSettings } from './OrganisationSettings';
import { PARTS, type Part, type SettingsView } from './settingsView';
import { Sources } from './Sources';
import { UploadRules } from './UploadRules';
import { Usage } from './Usage';
import { Webhooks } from './Webhooks';

type PageProps = { organisation: Organisation; isOwner: boolean };

const settingsRoute = getRouteApi('/settings');
const FOR_OWNERS: readonly Part[] = ['sources', 'webhooks'];

export function SettingsPage() {
  const { part = 'organisation' } = settingsRoute.useSearch();
  const updateSearch = useUpdateSearch<SettingsView>();
  return (
    <OrganisationPage
      title={t('areas.settings')}
      tabs={({ isOwner }) => (
        <Tabs<Part>
          label={t('areas.settings')}
          value={part}
          tabs={PARTS.filter((one) => isOwner || !FOR_OWNERS.includes(one)).map((value) => ({
            value,
            label: t(`settings.sections.${value}`),
          }))}
          onChange={(next) => updateSearch(() => (next === 'organisation' ? {} : { part: next }))}
          listClass="px-4"
        />
      )}>
      {(props) => (
        <section className="grid gap-4" aria-label={t(`settings.sections.${part}`)}>
          {part === 'organisation' && <OrganisationSettings {...props} />}
          {part === 'approvals' && <ApprovalSettings {...props} />}
          {part === 'rules' && <UploadRules {...props} />}
          {part === 'usage' && <Usage />}
          {props.isOwner && part === 'sources' && <Sources />}
          {props.isOwner && part === 'webhooks' && <Webhooks />}
        </section>
      )}
    </OrganisationPage>
  );
}

export function MembersPage() {
  return (
    <OrganisationPage
      title={t('areas.members')}
      action={({ organisation, isOwner }) => isOwner && <Invite organisation={organisation} />}>
      {({ organisation, isOwner }) => (
        <>
          <Card label={t('settings.sections.members')}>
            <Members organisation={organisation} isOwner={isOwner} />
          </Card>
          {isOwner && <Invitations organisation={organisation} />}
        </>
      )}
    </OrganisationPage>
  );
}

export function KeysPage() {
  return (
    <OrganisationPage
      title={t('areas.keys')}
      action={({ organisation }) => organisation.role !== 'viewer' && <CreateKey organisation={organisation} />}>
      {({ organisation }) => <Keys organisation={organisation} />}
    </OrganisationPage>
  );
}

interface OrganisationPageProps {
  title: string;
  /** The main action, in the head. */
  action?: (props: PageProps) => ReactNode;
  tabs?: (props: PageProps) => ReactNode;
  children: (props: PageProps) => ReactNode;
}

function OrganisationPage({ title, action, tabs, children }: OrganisationPageProps) {
  const me = useQuery(meQuery);
  const organisation = useOrganisation();
  if (me.isError) return <ErrorNotice error={me.error} onRetry={() => void me.refetch()} />;
  if (organisation === undefined) return <Loading />;
  const props = { organisation, isOwner: organisation.role === 'owner' };
  return (
    <div className="min-h-full bg-background">
      <div className="flex h-12 items-center justify-between gap-3 border-b border-border px-6 max-sm:px-4">
        <h1 className="text-lg font-semibold">{title}</h1>
        {action?.(props)}
      </div>
      {tabs?.(props)}
      <div className="mx-auto grid max-w-6xl gap-4 p-6 max-sm:p-3">{children(props)}</div>
    </div>
  );
}
