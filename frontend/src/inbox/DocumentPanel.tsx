/** A suggested schema, or a file that could not be read. */

import { useQuery } from '@tanstack/react-query';
import { Loading } from '../components/ui/Loading';
import { NotReady } from '../document/NotReady';
import { ProposalBanner } from '../document/ProposalBanner';
import { documentQuery } from '../documents/documentQueries';
import { useCanWrite } from '../session/role';
import type { InboxItem } from './inboxQueries';
import { PageAndPanel } from './PageAndPanel';

export function DocumentPanel({ item }: { item: InboxItem }) {
  const document = useQuery({ ...documentQuery(item.document_id ?? ''), enabled: item.document_id !== null });
  const canWrite = useCanWrite();
  if (document.data === undefined) return <Loading />;
  return (
    <PageAndPanel documentId={item.document_id}>
      <div className="min-h-0 flex-1 overflow-y-auto p-4">
        {item.kind === 'failed' ? (
          <NotReady document={document.data} />
        ) : (
          <ProposalBanner document={document.data} canWrite={canWrite} />
        )}
      </div>
    </PageAndPanel>
  );
}
