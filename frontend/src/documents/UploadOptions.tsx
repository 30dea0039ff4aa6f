/** Options for uploads: whether an agent suggests a schema for each, and with which model. */

import { useState } from 'react';
import { useOrganisation } from '../session/role';
import { t } from '../shared/i18n';
import { ModelInput } from '../shared/ModelInput';
import styles from './DocumentsPage.module.css';
import { uploadOptions } from './uploads';

export function UploadOptions() {
  const organisation = useOrganisation();
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
        {t('documents.suggestOnUpload')}
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
