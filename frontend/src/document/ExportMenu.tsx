/** A menu that downloads an extraction as a file. */

import { Download } from 'lucide-react';
import { fetchFile } from '../api/client';
import { Button } from '../components/ui/Button';
import { t } from '../shared/i18n';
import { Menu, MenuItem } from '../components/ui/Menu';
import { saveFile } from '../shared/saveFile';
import { useChange } from '../shared/useChange';

const FORMATS = ['xlsx', 'csv', 'json', 'html'] as const;

export function ExportMenu({ extractionId, name }: { extractionId: string; name: string }) {
  const save = useChange([], async (format: string) => {
    const content = await fetchFile(`/api/extractions/${encodeURIComponent(extractionId)}/export?format=${format}`);
    saveFile(content, `${name.replace(/\.[^.]{1,5}$/, '')}.${format}`);
  });
  return (
    <Menu
      trigger={<Button kind="quiet" icon={Download} label={t('document.export.button')} disabled={save.isPending} />}>
      {FORMATS.map((format) => (
        <MenuItem key={format} onChoose={() => save.mutate(format)}>
          {t(`document.export.${format}`)}
        </MenuItem>
      ))}
    </Menu>
  );
}
