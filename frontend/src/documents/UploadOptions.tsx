/** What becomes of uploaded files: whether an agent suggests a schema and values for each, and by which model. */

import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { meQuery } from '../session/config';
import { useSession } from '../session/session';
import { ModelInput } from '../shared/ModelInput';
import styles from './DocumentsPage.module.css';
import { uploadOptions } from './uploads';

export function UploadOptions() {
  const { organisationId } = useSession();
  const me = useQuery(meQuery);
  const organisation = me.data?.organisations.find((one) => (organisationId === null ? one.is_personal : one.id === organisationId));
  const [autoCreate, setAutoCreate] = useState(uploadOptions.autoCreate);
  const [model, setModel] = useState(uploadOptions.model);
  const isOn = autoCreate ?? organisation?.auto_create ?? false;
  return (
    <span className={styles.options}>
      <label>
        <input
          type="checkbox"
          checked={isOn}
          onChange={(event) => {
            uploadOptions.autoCreate = event.target.checked;
            setAutoCreate(event.target.checked);
          }}
        />{' '}
        Suggest a schema for each upload
      </label>
      {isOn && autoCreate !== null && (
        <ModelInput
          value={model}
          onChange={(next) => {
            uploadOptions.model = next;
            setModel(next);
          }}
        />
      )}
    </span>
  );
}
