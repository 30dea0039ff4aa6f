/** A menu that downloads a table as a file, with its filter and order. */

import { Download } from 'lucide-react';
import { fetchFile } from '../api/client';
import { Button } from '../components/ui/Button';
import { t } from '../shared/i18n';
import { Menu, MenuItem } from '../components/ui/Menu';
import { saveFile } from '../shared/saveFile';
import { exportAddress, type TableRequest } from '../records/tableQueries';
import { useChange } from '../shared/useChange';

const FORMATS = ['xlsx', 'csv', 'json', 'parquet'] as const;

export function TableExport({ request, name, isEmpty }: { request: TableRequest; name: string; isEmpty: boolean }) {
  const save = useChange([], async (format: string) =>
    saveFile(await fetchFile(exportAddress(request, format)), `${name}.${format}`),
  );
  return <ExportMenu isBusy={isEmpty || save.isPending} onChoose={save.mutate} />;
}

/** A button with the formats of an export. */
export function ExportMenu({
  isBusy,
  align,
  isIcon = false,
  onChoose,
}: {
  isBusy: boolean;
  align?: 'start' | 'end';
  isIcon?: boolean;
  onChoose: (format: string) => void;
}) {
  return (
    <Menu
      {...(align && { align })}
      trigger={
        isIcon ? (
          <Button kind="quiet" icon={Download} label={t('document.export.button')} disabled={isBusy} />
        ) : (
          <Button icon={Download} disabled={isBusy}>
            <span className="max-lg:sr-only">{t('document.export.button')}</span>
          </Button>
        )
      }>
      {FORMATS.map((format) => (
        <MenuItem key={format} onChoose={() => onChoose(format)}>
          {t(`document.export.${format}`)}
        </MenuItem>
      ))}
    </Menu>
  );
}
