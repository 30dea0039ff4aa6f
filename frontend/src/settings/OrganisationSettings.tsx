/** The settings of an organisation. Owners can change them; changes apply at once. */

import { useState } from 'react';
import { api } from '../api/client';
import type { Organisation } from '../api/types';
import { session } from '../session/session';
import { Button } from '../components/ui/Button';
import { Form } from '../components/ui/Form';
import { GOALS, goalLabel } from '../shared/goals';
import { SecondReadingHint } from '../shared/SecondReadingHint';
import { t } from '../shared/i18n';
import { Field } from '../components/ui/Field';
import { Input } from '../components/ui/Input';
import { Select } from '../components/ui/Select';
import { Switches, useOrganisationChange } from './ApprovalSettings';
import { useChange } from '../shared/useChange';

export function OrganisationSettings({ organisation, isOwner }: { organisation: Organisation; isOwner: boolean }) {
  const [name, setName] = useState(organisation.name);
  const { change, shown } = useOrganisationChange(organisation);
  return (
    <>
      <Form className="flex flex-wrap items-end gap-3" onSubmit={() => change.mutate({ name })}>
        <Field label={t('settings.organisation.name')} className="min-w-60 flex-1">
          <Input value={name} maxLength={200} disabled={!isOwner} onValueChange={setName} />
        </Field>
        {isOwner && (
          <Button
            size="md"
            type="submit"
            disabled={change.isPending || name.trim() === '' || name === organisation.name}>
            {t('settings.organisation.rename')}
          </Button>
        )}
      </Form>
      <Field label={t('settings.organisation.max_error')} hint={t('settings.organisation.max_errorHint')} layout="row">
        <Select
          className="w-44!"
          value={String(shown.max_error)}
          disabled={!isOwner || change.isPending}
          options={[...new Set<number>([...GOALS, organisation.max_error])].map((goal) => ({
            value: String(goal),
            label: goalLabel(goal),
          }))}
          onChange={(goal) => change.mutate({ max_error: Number(goal) })}
        />
      </Field>
      <Field
        layout="row"
        label={t('agents.second_reading')}
        hint={<SecondReadingHint text={t('settings.organisation.second_readingHint')} />}>
        <Select
          className="w-52!"
          value={shown.second_reading ?? 'off'}
          disabled={!isOwner || change.isPending}
          options={(['off', 'unsure', 'all'] as const).map((value) => ({ value, label: t(`secondReading.${value}`) }))}
          onChange={(second_reading) => change.mutate({ second_reading })}
        />
      </Field>
      <Switches
        keys={['auto_create', 'examples']}
        organisation={shown}
        disabled={!isOwner || change.isPending}
        onChange={change.mutate}
      />
      <NewOrganisation />
    </>
  );
}

function NewOrganisation() {
  const [name, setName] = useState('');
  const create = useChange(['me'], async (body: { name: string }) => {
    const made = await api.post('/api/organisations', { body });
    session.selectOrganisation(made.id);
    return made;
  });
  return (
    <Form
      className="mt-2 flex flex-wrap items-end gap-3 border-t border-line pt-5"
      onSubmit={() => create.mutate({ name })}>
      <Field label={t('settings.organisation.create')} className="min-w-60 flex-1">
        <Input value={name} maxLength={200} placeholder={t('settings.organisation.newName')} onValueChange={setName} />
      </Field>
      <Button size="md" type="submit" disabled={create.isPending || name.trim() === ''}>
        {t('settings.organisation.createSubmit')}
      </Button>
    </Form>
  );
}
