/** In a dialog: a name, and the action that saves it. */

import { useState } from 'react';
import { DialogActions } from '../components/ui/Dialog';
import { Field } from '../components/ui/Field';
import { Form } from '../components/ui/Form';
import { Input } from '../components/ui/Input';
import { ErrorNotice } from '../components/ui/Notice';

interface Props {
  name: string;
  /** The label of the field. */
  field: string;
  /** The action. */
  label: string;
  saving: { error: unknown; isPending: boolean; mutate: (name: string) => void };
  onClose: () => void;
}

export function NameForm({ name, field, label, saving: { error, isPending, mutate }, onClose }: Props) {
  const [text, setText] = useState(name);
  const isOff = isPending || text.trim() === '';
  return (
    <Form className="grid gap-3" onSubmit={() => !isOff && mutate(text.trim())}>
      <Field label={field}>
        <Input value={text} maxLength={200} autoFocus onValueChange={setText} />
      </Field>
      {error !== null && <ErrorNotice error={error} />}
      <DialogActions label={label} disabled={isOff} onClose={onClose} />
    </Form>
  );
}
