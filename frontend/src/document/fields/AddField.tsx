/** Adds a field by hand: one that the schema names, or any other. A click on a word of the page fills in its value. */

import { useQuery } from '@tanstack/react-query';
import { useId, useMemo, useState } from 'react';
import type { Extraction } from '../../api/types';
import { Button } from '../../shared/Button';
import { visibleText } from '../../shared/format';
import { knownFieldsQuery } from '../documentPageQueries';
import type { SchemaField } from '../schemaFields';
import { pathIn } from '../unmapped/suggestedPaths';
import { useWordPicker } from '../viewer/picking';
import styles from './FieldPanel.module.css';
import { generalPath } from './fieldTree';
import { readWritten } from './fieldValue';
import { pathSteps, valueAt } from './paths';

interface Props {
  extraction: Extraction;
  schema: readonly SchemaField[];
  onAdd: (path: string, value: unknown) => void;
}

export function AddField(props: Props) {
  const [isOpen, setOpen] = useState(false);
  return isOpen ? (
    <Form {...props} onClose={() => setOpen(false)} />
  ) : (
    <Button kind="quiet" onClick={() => setOpen(true)}>
      Add field
    </Button>
  );
}

function Form({ extraction, schema, onAdd, onClose }: Props & { onClose: () => void }) {
  const known = useQuery(knownFieldsQuery(extraction.document_type));
  const [path, setPath] = useState('');
  const [value, setValue] = useState('');
  const id = useId();
  useWordPicker((words, isMore) => setValue((before) => (isMore && before !== '' ? `${before} ${words}` : words)));
  const paths = useMemo(() => {
    const named = [...schema.filter((one) => !/object|array/.test(one.type)), ...(known.data ?? [])].map((one) => pathIn(extraction.extracted_fields, one.path));
    return [...new Set(named)].filter((one): one is string => one !== null && valueAt(extraction.extracted_fields, pathSteps(one) ?? ['']) === undefined);
  }, [schema, known.data, extraction.extracted_fields]);
  const name = path.trim();
  const isTaken = name !== '' && valueAt(extraction.extracted_fields, pathSteps(name) ?? ['']) !== undefined;
  return (
    <form
      className={styles.add}
      aria-label="Add field"
      onSubmit={(event) => {
        event.preventDefault();
        if (name === '' || isTaken) return;
        onAdd(name, readWritten(value, undefined, schema.find((one) => one.path === generalPath(name))?.type));
        onClose();
      }}
      onKeyDown={(event) => {
        if (event.key === 'Escape') onClose();
      }}
    >
      <input aria-label="Field" placeholder="vendor.name" list={id} maxLength={1000} autoFocus value={path} onChange={(event) => setPath(event.target.value)} />
      <datalist id={id}>
        {paths.map((one) => (
          <option key={one} value={one}>
            {visibleText(one)}
          </option>
        ))}
      </datalist>
      <input aria-label="Value" placeholder="Type, or click a word on the page" value={value} onChange={(event) => setValue(event.target.value)} />
      <Button kind="main" type="submit" disabled={name === '' || isTaken}>
        Add
      </Button>
      <Button kind="quiet" onClick={onClose}>
        Cancel
      </Button>
      {isTaken && <p className="muted">This field has a value already: edit it in the list.</p>}
    </form>
  );
}
