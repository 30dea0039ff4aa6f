/** Adds a field by hand. Clicking a word on the page fills in its value. */

import { useQuery } from '@tanstack/react-query';
import { Plus } from 'lucide-react';
import { useId, useMemo, useState } from 'react';
import type { Extraction } from '../../api/types';
import { Button } from '../../components/ui/Button';
import { Form } from '../../components/ui/Form';
import { Input } from '../../components/ui/Input';
import { t } from '../../shared/i18n';
import { knownFieldsQuery } from '../../fields/extractionQueries';
import type { SchemaField } from '../../fields/schemaFields';
import { pathIn } from '../unmapped/suggestedPaths';
import { useWordPicker } from '../../viewer/picking';
import { parseEdited } from '../../fields/fieldValue';
import { pathLabel, schemaPath } from '../../fields/labels';
import { pathSteps, valueAt } from '../../fields/paths';

interface Props {
  extraction: Extraction;
  schema: readonly SchemaField[];
  onAdd: (path: string, value: unknown) => void;
}

export function AddField(props: Props) {
  const [isOpen, setOpen] = useState(false);
  return isOpen ? (
    <FieldForm {...props} onClose={() => setOpen(false)} />
  ) : (
    <Button kind="quiet" icon={Plus} onClick={() => setOpen(true)}>
      {t('fields.add')}
    </Button>
  );
}

function FieldForm({ extraction, schema, onAdd, onClose }: Props & { onClose: () => void }) {
  const known = useQuery(knownFieldsQuery(extraction.document_type));
  const [path, setPath] = useState('');
  const [value, setValue] = useState('');
  const id = useId();
  useWordPicker((words, isMore) => setValue((before) => (isMore && before !== '' ? `${before} ${words}` : words)));
  const paths = useMemo(() => {
    const named = [...schema.filter((one) => !/object|array/.test(one.type)), ...(known.data ?? [])].map((one) =>
      pathIn(extraction.extracted_fields, one.path),
    );
    return [...new Set(named)].filter(
      (one): one is string =>
        one !== null && valueAt(extraction.extracted_fields, pathSteps(one) ?? ['']) === undefined,
    );
  }, [schema, known.data, extraction.extracted_fields]);
  const name = path.trim();
  const isInvalid = pathSteps(name) === null;
  const isTaken = name !== '' && valueAt(extraction.extracted_fields, pathSteps(name) ?? ['']) !== undefined;
  return (
    <Form
      className="flex w-full flex-wrap gap-2 p-2"
      aria-label={t('fields.add')}
      onSubmit={() => {
        if (name === '' || isInvalid || isTaken) return;
        onAdd(name, parseEdited(value, undefined, schema.find((one) => one.path === schemaPath(name))?.type));
        onClose();
      }}
      onKeyDown={(event) => {
        if (event.key === 'Escape') onClose();
      }}>
      <Input
        className="w-auto! min-w-32 flex-1"
        aria-label={t('common.field')}
        placeholder={t('fields.addName')}
        list={id}
        maxLength={1000}
        autoFocus
        value={path}
        onValueChange={setPath}
      />
      <datalist id={id}>
        {paths.map((one) => (
          <option key={one} value={one}>
            {pathLabel(one, schema)}
          </option>
        ))}
      </datalist>
      <Input
        className="w-auto! min-w-32 flex-1"
        aria-label={t('common.value')}
        placeholder={t('fields.addValue')}
        value={value}
        onValueChange={setValue}
      />
      <Button kind="main" size="md" type="submit" disabled={name === '' || isInvalid || isTaken}>
        {t('fields.addSubmit')}
      </Button>
      <Button kind="quiet" size="md" onClick={onClose}>
        {t('common.cancel')}
      </Button>
      {isInvalid && <p className="muted">{t('errors.invalid_path')}</p>}
      {isTaken && <p className="muted">{t('fields.addExists')}</p>}
    </Form>
  );
}
