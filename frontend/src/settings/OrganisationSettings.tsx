/** The settings of an organisation. Owners can change them; changes apply at once. */

import { useState } from 'react';
import { api } from '../api/client';
import type { Organisation } from '../api/types';
import { session } from '../session/session';
import { Button } from '../components/ui/Button';
import { Dialog } from '../components/ui/Dialog';
import { GOALS, goalLabel } from '../shared/goals';
import { SecondReadingHint } from '../shared/SecondReadingHint';
import { visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import { NameForm } from '../shared/NameForm';
import { Field } from '../components/ui/Field';
import { Select } from '../components/ui/Select';
import { SettingRows, Switches, useOrganisationChange } from './ApprovalSettings';
import { useChange } from '../shared/useChange';

export function OrganisationSettings({ organisation, isOwner }: { organisation: Organisation; isOwner: boolean }) {
  const { change, shown } = useOrganisationChange(organisation);
  const create = useChange(['me'], async (name: string) => {
    const made = await api.post('/api/organisations', { body: { name } });
    session.selectOrganisation(made.id);
  });
  return (
    <SettingRows>
      <Field layout="row" label={t('settings.organisation.name')} hint={visibleText(shown.name)}>
        {isOwner && (
          <NameButton
            label={t('settings.organisation.rename')}
            name={organisation.name}
            saving={{ ...change, mutate: (name) => change.mutate({ name }) }}
          />
        )}
      </Field>
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
      <Field layout="row" label={t('settings.organisation.another')} hint={t('settings.organisation.anotherHint')}>
        <NameButton label={t('settings.organisation.create')} name="" saving={create} />
      </Field>
    </SettingRows>
  );
}

interface NameProps {
  /** The action. */
  label: string;
  name: string;
  saving: { error: unknown; isPending: boolean; isSuccess: boolean; mutate: (name: string) => void; reset: () => void };
}

/** A button that asks for a name. */
function NameButton({ label, name, saving }: NameProps) {
  const [isOpen, setOpen] = useState(false);
  const close = () => setOpen(false);
  return (
    <>
      <Button
        onClick={() => {
          saving.reset();
          setOpen(true);
        }}>
        {label}
      </Button>
      <Dialog title={label} open={isOpen && !saving.isSuccess} onClose={close}>
        <NameForm name={name} field={t('settings.organisation.name')} label={label} saving={saving} onClose={close} />
      </Dialog>
    </>
  );
}
